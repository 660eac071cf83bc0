# SPDX-License-Identifier: GPL-2.0
"""Run a scenario under gdb, with the symbols of the kernel and of the project's modules.

The guest boots again without the recording (machine.py), because gdb cannot step past an interrupt
while the emulator records.  The packets' times differ by microseconds from those of a run without gdb.
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
    """The socket on which the emulator listens for gdb, and the script with which gdb connects."""
    socket: Path
    script: Path

    def command(self) -> str:
        """The emulator's command that opens the socket.  The paused machine then waits for gdb."""
        return f"gdbserver unix:path={self.socket},server=on,wait=off"


def prepare(guest: image.Image) -> Stub:
    """Fetch the kernel's symbols (0.9 GB, the first time) and write gdb's script.  Raises LabError."""
    folder = BUILD / "gdb"
    folder.mkdir(parents=True, exist_ok=True)
    stub = Stub(folder / "socket", folder / "attach.gdb")
    modules = image.build_modules(guest.release)
    stub.socket.unlink(missing_ok=True)
    stub.script.write_text(f"""\
set pagination off
set confirm off
file {packages.vmlinux_with_symbols(guest.release)}
python import os; os.environ["SATCC_MODULES"] = {str(modules)!r}
directory {modules}
# The guest may have to boot first.
python
import time
while not os.path.exists({str(stub.socket)!r}):
    time.sleep(0.2)
end
target remote {stub.socket}
# Step without taking interrupts.
maintenance packet Qqemu.sstep=0x7
set breakpoint pending on
source {SYMBOLS}
""")
    return stub


def announce(guest: image.Image, console: Console) -> Stub:
    """Call prepare() and print the gdb command for another terminal.  Raises LabError."""
    stub = prepare(guest)
    script = stub.script.relative_to(TOP) if stub.script.is_relative_to(TOP) else stub.script
    console.print(f"the guest waits for: gdb -x {shlex.quote(str(script))}", soft_wrap=True)
    return stub
