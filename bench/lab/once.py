# SPDX-License-Identifier: GPL-2.0
"""Boot a kernel once, in the host's time, for what the lab's machine cannot have.

The lab saves the state of its machine by a PC's watchdog, through /dev/port, and reads the job from I/O
ports.  A kernel that is locked down refuses both, and other processors have neither.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD, scratch_prefix
from . import image

# The emulator's command, and the device of the first serial line, of each machine.
MACHINES = {
    "amd64": (["qemu-system-x86_64", "-machine", "pc", "-cpu", "qemu64"], "ttyS0"),
    "i386": (["qemu-system-x86_64", "-machine", "pc", "-cpu", "qemu64"], "ttyS0"),
    "arm64": (["qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a57"], "ttyAMA0"),
}
ARGUMENTS = "quiet loglevel=3 panic=-1 oops=panic panic_on_warn=1 random.trust_cpu=on rdinit=/once"
LIMIT_S = 600
BEGIN, END = "satcc: begin", "satcc: end"
INIT = f"""\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
exec < /dev/null > /dev/console 2>&1
ip link set lo up
echo "{BEGIN}"
cd /once.d
sh ./run
echo "{END} $?"
poweroff -f
"""


def printed(vmlinuz: Path, initramfs: Path, files: dict[str, bytes], arguments: str = "",
            architecture: str = "amd64") -> str:
    """Boot, run files["run"] in a folder with the files, and return what it printed.

    initramfs: has a shell and mount.  Linux unpacks several archives, one after the other.
    arguments: more for the kernel's command line.
    Raises LabError, with the end of the console, if the script's status is not 0.
    """
    (emulator, console), scratch = MACHINES[architecture], BUILD / "lab"
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("image"), dir=scratch) as folder:
        stage, both = Path(folder) / "stage", Path(folder) / "initramfs"
        (stage / "once.d").mkdir(parents=True)
        for name, content in {"once": INIT.encode(), **{f"once.d/{name}": files[name]
                                                        for name in files}}.items():
            (stage / name).write_bytes(content)
            (stage / name).chmod(0o755)
        image.write_cpio(stage, both)
        both.write_bytes(_padded(initramfs.read_bytes()) + both.read_bytes())
        command = [*emulator, "-accel", "tcg", "-m", "1024", "-nodefaults", "-no-reboot", "-display",
                   "none", "-serial", "stdio", "-kernel", str(vmlinuz), "-initrd", str(both),
                   "-append", f"console={console} {ARGUMENTS} {arguments}"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True, errors="replace",
                                  capture_output=True, timeout=LIMIT_S)
        except FileNotFoundError:
            raise LabError(f"{emulator[0]} is not installed") from None
        except subprocess.TimeoutExpired as error:
            raise LabError(f"the guest did not end within {LIMIT_S} s: "
                           f"{_last(error.stdout or b'')}") from None
    text = done.stdout.replace("\r", "")
    if match := re.search(rf"^{BEGIN}\n(.*?)^{END} (\d+)$", text, re.M | re.S):
        if match[2] == "0":
            return match[1]
        raise LabError(f"the guest's script ended with status {match[2]}: {_last(match[1])}")
    raise LabError(f"the guest ended early: {_last(text) or done.stderr.strip()}")


def _padded(archive: bytes) -> bytes:
    return archive + b"\0" * (-len(archive) % 512)


def _last(text: str | bytes) -> str:
    text = text if isinstance(text, str) else text.decode(errors="replace")
    return " / ".join(text.strip().splitlines()[-3:])
