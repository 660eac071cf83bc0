# SPDX-License-Identifier: GPL-2.0
"""A script for gdb: load the symbols of the project's modules at the addresses in the guest's kernel.

gdb's script (debug.py) sets SATCC_MODULES to the folder of the modules with debug information.
"""

import os
from pathlib import Path

import gdb

OBJECTS = {path.stem: path for path in Path(os.environ["SATCC_MODULES"]).glob("*/*.ko")}


class Loading(gdb.Breakpoint):
    """A breakpoint where the kernel has placed a module's sections and is about to call its init."""

    def stop(self):
        """Load the module's symbols.  Returns False: the machine does not stop."""
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
