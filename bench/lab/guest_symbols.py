# SPDX-License-Identifier: GPL-2.0
"""Run by gdb, not by the bench: symbols of the pack's modules, where the guest's kernel loads them.

SATCC_MODULES, which gdb's script sets, is the folder of the modules with debug information.
"""

import os
from pathlib import Path

import gdb

OBJECTS = {path.stem: path for path in Path(os.environ["SATCC_MODULES"]).glob("*/*.ko")}


class Loading(gdb.Breakpoint):
    """The kernel is about to call a module's init function: its sections are in place."""

    def stop(self):
        """False: the machine goes on."""
        module = gdb.parse_and_eval("(struct module *)$rdi")
        name = module["name"].string()
        if name in OBJECTS:
            sections = module["sect_attrs"]
            attributes = [sections["attrs"][index] for index in range(int(sections["nsections"]))]
            addresses = {each["battr"]["attr"]["name"].string(): int(each["address"])
                         for each in attributes}
            places = " ".join(f"-s {section} {address:#x}" for section, address in addresses.items()
                              if section != ".text")
            gdb.execute(f"add-symbol-file {OBJECTS[name]} {addresses['.text']:#x} {places}",
                        to_string=True)
            gdb.write(f"symbols of {name}\n")
        return False


Loading("do_init_module", internal=True)
