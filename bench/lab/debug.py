# SPDX-License-Identifier: GPL-2.0
"""gdb on a run: the emulator waits for it, with symbols of the kernel and of the pack's modules.

The guest boots once more, for gdb: the emulator does not record then, for it could not step past an
interrupt.  The packets are those of the run without gdb but for microseconds.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ..paths import BUILD, TOP
from . import image, packages

SYMBOLS = Path(__file__).with_name("guest_symbols.py")


@dataclass(frozen=True)
class Stub:
    """Where the emulator listens for gdb, and gdb's script, which connects to it."""
    socket: Path
    script: Path

    def arguments(self) -> list[str]:
        """The emulator's: stopped until gdb lets it go on."""
        return ["-S", "-gdb", f"unix:path={self.socket},server=on,wait=off"]


def prepare(of: image.Image) -> Stub:
    """Fetch the kernel's symbols (0.9 GB to fetch, once) and write gdb's script.  Raises LabError."""
    folder = BUILD / "gdb"
    folder.mkdir(parents=True, exist_ok=True)
    stub = Stub(folder / "socket", folder / "attach.gdb")
    modules = image.build_modules(of.release)
    stub.socket.unlink(missing_ok=True)
    stub.script.write_text(f"""\
set pagination off
set confirm off
file {packages.vmlinux_with_symbols(of.release)}
python import os; os.environ["SATCC_MODULES"] = {str(modules)!r}
directory {modules}
target remote {stub.socket}
# Step without taking interrupts.
maintenance packet Qqemu.sstep=0x7
set breakpoint pending on
source {SYMBOLS}
""")
    return stub


def announced(of: image.Image, console: Console) -> Stub:
    """prepare(), and a line that says what to type in another terminal."""
    stub = prepare(of)
    script = stub.script.relative_to(TOP) if stub.script.is_relative_to(TOP) else stub.script
    console.print(f"the guest waits for: gdb -x {shlex.quote(str(script))}", soft_wrap=True)
    return stub
