# SPDX-License-Identifier: GPL-2.0
"""Policies as BPF objects: their packets beside the module's, and what the loader says.

Module and object are loaded before the run, and both runs begin at the same time of the guest's.
Where a link loses at random, satlink draws the numbers: one a packet, whatever the kernel draws.

The objects are built from the BTF of 6.1, whichever kernel they run on.
"""

import ctypes
import subprocess

import numpy as np
import pytest

from bench.lab import bpf, image, machine, once
from bench.lab.play import Lab
from bench.matrix import pairs, twice
from selftests.conftest import KERNEL, in_turn
from selftests.lab.situations import restart_from_32

pytestmark = pytest.mark.lab

# An ACK takes some instructions more or less, of a nanosecond each, and timers are late by up to 50 us;
# seen: 48_389, and 118_349 for the answer to a FIN. A segment takes 6 ms of a 2 Mbit/s link.
LATE_NS = 200_000
# satcc's W may grow an ACK earlier or later; seen: 5 of 423 segments up to 3.75 ms apart.
ACK_NS = 6_500_000
LOSS_BER = 8.4e-7           # 1 % of packets of 1500 bytes
UNUSED_BURST = 20 * 1448
UNAME26 = 0x0020000         # personality(2): the kernel calls itself 2.6
PR_CAPBSET_DROP, CAP_BPF = 24, 39


@pytest.fixture(scope="module")
def lab():
    return Lab(KERNEL, extras=("bpf",))


@pytest.fixture(scope="module")
def objects():
    return bpf.build("6.1")


@pytest.fixture(scope="module")
def play(lab, geo, objects):
    """A policy's run as a module and as an object, with the same files."""
    def both(policy, **link):
        scenario = geo(policy, trace=(), captures=["sender", "bottleneck"], **link)
        return [lab.run(scenario, bpf.files(objects, policy), first=lines)
                for lines in (bpf.as_module(policy), bpf.as_object(policy))]
    return both


def same_packets(module, object_, late_ns=LATE_NS):
    found = pairs.compare(module, object_)
    assert found.same and found.late_ns < late_ns, found


def test_object_sends_the_modules_packets_through_a_short_queue(play):
    """The queue drops what is too much."""
    module, object_ = play("hybla_full", queue_bdp=0.3, bytes=600_000)
    assert "tcp_hybla_full" in module.meta["modules"]
    assert "tcp_hybla_full" not in object_.meta["modules"]
    assert object_.json("flow-0.json")["cc"] == "hybla_full"
    assert module.json("flow-0.json")["total_retrans"] > 10
    same_packets(module, object_)


@pytest.mark.parametrize("policy", in_turn(bpf.policies(), 0, always=["satcc"]))
def test_object_sends_the_modules_packets_without_loss(play, policy):
    """At 10 Mbit/s hybla_full's first ssthresh, a time of a few ms in its estimate, is a segment larger
    or smaller for 2 us; here it is not."""
    module, object_ = play(policy, queue_bdp=4, bytes=200_000)
    assert module.json("flow-0.json")["total_retrans"] == 0
    assert object_.json("flow-0.json")["cc"] == policy
    same_packets(module, object_)


@pytest.mark.parametrize("policy", in_turn(bpf.policies(), 1, always=["satcc"]))
def test_object_sends_the_modules_packets_with_random_loss(play, policy):
    """One segment of a hundred is lost, by its number."""
    module, object_ = play(policy, queue_bdp=4, bytes=600_000, line={"errors": {"ber": LOSS_BER}})
    assert module.json("flow-0.json")["total_retrans"] > 1
    assert object_.json("flow-0.json")["cc"] == policy
    same_packets(module, object_, ACK_NS if policy == "satcc" else LATE_NS)


def test_object_forgets_an_unused_window_as_the_module(play):
    """Twenty segments every 0.6 s: W of some hundred, and with it the rate of a burst, comes down."""
    module, object_ = play("satcc", queue_bdp=4, bytes=24 * UNUSED_BURST,
                           flow={"write_bytes": UNUSED_BURST, "write_ms": 600})
    forward = module.sender.where(module.sender.length > 0)
    burst_ns = [np.ptp(forward.t[number * 20:number * 20 + 20]) for number in (4, 23)]
    assert burst_ns[1] > 1.5 * burst_ns[0]
    same_packets(module, object_)


def test_object_restarts_from_the_routes_initial_window_as_the_module(play):
    """After a pause of 8 s, 32 segments leave at once."""
    module, object_ = play("satcc", queue_bdp=4, bytes=600_000, **restart_from_32())
    forward = module.sender.where(module.sender.length > 0)
    after = int(np.argmax(np.diff(forward.t))) + 1
    assert np.searchsorted(forward.t, forward.t[after] + 500_000_000) - after == 32
    same_packets(module, object_)


@pytest.fixture
def both(lab, geo, objects):
    """A policy's lossy flow in which module and object run at each callback, on the same socket."""
    def of(policy, *parameters):
        transfer = geo(policy, trace=(), queue_bdp=4, bytes=600_000,
                       line={"errors": {"ber": LOSS_BER}})
        return twice.both(lab, transfer, objects, *parameters)
    return of


@pytest.mark.parametrize("policy", in_turn(bpf.policies(), 2, always=["satcc"]))
def test_object_writes_and_returns_what_the_module_does(both, policy):
    counts = both(policy)
    assert counts.differing == 0, counts.first
    assert counts.total > 1000 and counts.calls["ssthresh"]
    assert max(counts.calls["cong_avoid"], counts.calls["cong_control"]) > 100


def test_another_parameter_of_the_object_is_a_difference(both):
    """ibk's k counts in congestion avoidance alone."""
    counts = both("ibk", "k=7")
    assert counts.differing and counts.first.startswith("cong_avoid, call "), counts


def said(lab, objects, tmp_path, commands):
    """What each of some commands prints in a guest, and its exit status."""
    lines = ["#!/bin/sh", "set +ex"]
    for number, command in enumerate(commands):
        lines.append(f"( {command} ) > /run/out/{number}.said 2>&1; echo $? > /run/out/{number}.status")
    made = {"run": "\n".join([*lines, "exit 0", ""]).encode(),
            **bpf.files(objects, "hybla_full", "mtsi")}
    files = machine.run_job(lab.snapshot, made, tmp_path / "console.log").files
    return [(files[f"{number}.said"].decode().strip(), int(files[f"{number}.status"]))
            for number in range(len(commands))]


BARE = """\
rm -r /lib/modules/*/updates
for tool in cc gcc clang make bpftool; do ! command -v $tool || exit 1; done
! ls -d /usr/src /lib/modules/*/build 2>&1 || exit 1
mount -t bpf none /sys/fs/bpf
satcc-bpf load hybla_full.bpf.o || exit 1
echo hybla_full > /proc/sys/net/ipv4/tcp_congestion_control || exit 1
iperf3 -s -1 -D
sleep 0.5
iperf3 -c 127.0.0.1 -b 10M -t 2 > /dev/null &
sleep 1
ss -HtinO state established "dport = :5201"
wait $!
"""


def test_two_commands_lead_to_a_transfer_on_a_host_without_compiler_headers_and_modules(
        lab, objects, tmp_path):
    """A system mounts /sys/fs/bpf at boot. Then: load the object, and select it."""
    made = {"run": f"set +ex\n( {BARE} ) > /run/out/said 2>&1\n".encode(),
            **bpf.files(objects, "hybla_full")}
    said_ = machine.run_job(lab.snapshot, made, tmp_path / "console.log").files["said"].decode()
    flows = [line.split() for line in said_.splitlines() if ":5201" in line]
    assert flows and all("hybla_full" in words for words in flows), said_


LOCKED = """\
mount -t securityfs none /sys/kernel/security
cat /sys/kernel/security/lockdown
modprobe tcp_{policy}; echo "module: $?"
dmesg | grep -o "Lockdown: modprobe: .*"
mount -t bpf none /sys/fs/bpf
./satcc-bpf load {policy}.bpf.o; echo "object: $?"
cat /proc/sys/net/ipv4/tcp_available_congestion_control
"""


def boot_and_load(objects, policy, lockdown):
    """The lines that LOCKED prints in a kernel with such a lockdown."""
    guest = image.build(KERNEL)
    files = {"run": LOCKED.format(policy=policy).encode(), **bpf.files(objects, policy),
             "satcc-bpf": image.build_helper("satcc-bpf").read_bytes()}
    return once.printed(guest.vmlinuz, guest.initramfs, files, f"lockdown={lockdown}").splitlines()


@pytest.mark.long
def test_a_kernel_that_is_locked_down_refuses_the_module_and_loads_the_object(objects):
    """No key of this kernel has signed the module."""
    lines = boot_and_load(objects, "ibk", "integrity")
    assert "none [integrity] confidentiality" in lines
    assert "module: 1" in lines and "object: 0" in lines
    assert any(line.startswith("Lockdown: modprobe: unsigned module loading is restricted")
               for line in lines)
    assert "ibk" in lines[-1].split()
    free = boot_and_load(objects, "ibk", "none")
    assert "[none] integrity confidentiality" in free and "module: 0" in free


@pytest.mark.long
def test_a_kernel_that_hides_its_memory_loads_satcc(objects):
    """It has no helper that reads the route's initial window."""
    lines = boot_and_load(objects, "satcc", "confidentiality")
    assert "none integrity [confidentiality]" in lines
    assert "module: 1" in lines and "object: 0" in lines
    assert "satcc" in lines[-1].split()


def test_loader_loads_lists_unloads_and_refuses(lab, objects, tmp_path):
    load = "satcc-bpf load hybla_full.bpf.o"
    refused = {
        load: "no bpffs at /sys/fs/bpf: mount -t bpf none /sys/fs/bpf",
        f"mount -t bpf none /sys/fs/bpf; mount -t tmpfs none /sys/kernel/btf; {load}":
            "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF): no /sys/kernel/btf/vmlinux",
        f"umount /sys/kernel/btf; modprobe tcp_hybla_full; {load}":
            "the name hybla_full is taken by the module tcp_hybla_full: rmmod tcp_hybla_full",
        f"rmmod tcp_hybla_full; {load} rtt0_ms=0": "rtt0_ms=0 is out of bounds: 1 to 100000",
        f"{load} rtt0=1": "hybla_full has no parameter rtt0",
        f"{load} rtt0_ms=50; {load}": "hybla_full is loaded already: satcc-bpf unload hybla_full",
    }
    loaded = ["satcc-bpf list", "ls /sys/fs/bpf/satcc",
              "modprobe tcp_hybla_full; test -d /sys/module/tcp_hybla_full",
              "satcc-bpf unload hybla_full; satcc-bpf list; ls /sys/fs/bpf/satcc",
              "grep -w hybla_full /proc/sys/net/ipv4/tcp_available_congestion_control",
              "satcc-bpf unload hybla_full"]
    answers = said(lab, objects, tmp_path, [*refused, *loaded])
    for (text, status), line in zip(answers, refused.values()):
        assert (text, status) == (f"satcc-bpf: {line}", 1)
    shown, pins, module, unloaded, available, again = answers[len(refused):]
    assert shown == ("hybla_full BPF rtt0_ms=50 iw_rho=0 gentle=0", 0)
    assert pins == ("hybla_full\nhybla_full-param", 0)
    assert module == ("", 1)        # modprobe takes "File exists" for success
    assert unloaded == ("", 0)
    assert available == ("", 1)
    assert again == ("satcc-bpf: hybla_full is not loaded as a BPF object", 1)


def test_loader_takes_lists_and_words_as_the_module_does(lab, objects, tmp_path):
    load = "satcc-bpf load mtsi.bpf.o"
    bounds = "out of bounds: 1 to 8 numbers, 1 to 1048576 each"
    refused = {
        f"mount -t bpf none /sys/fs/bpf; {load} thr=20,30":
            "mtsi: 2 thresholds in thr, but 3 values in k",
        f"{load} thr=30,20,40": "mtsi: thr does not increase: 20 after 30",
        f"{load} thr=0,30,40": f"thr=0,30,40 is {bounds}",
        f"{load} thr=20,30,": f"thr=20,30, is {bounds}",
        f"{load} thr=1,2,3,4,5,6,7,8,9": f"thr=1,2,3,4,5,6,7,8,9 is {bounds}",
        f"{load} k=4,2,1025": "k=4,2,1025 is out of bounds: 1 to 8 numbers, 0 to 1024 each",
        f"{load} mode=reno": 'mode=reno is not one of "mtsi", "const", "linear"',
        f"{load} pacing=0,1": "pacing=0,1 is out of bounds: 0 to 1",
    }
    taken = f"{load} thr=5,1048576 k=0,1024 mode=linear && satcc-bpf list"
    *answers, loaded = said(lab, objects, tmp_path, [*refused, taken])
    assert answers == [(f"satcc-bpf: {line}", 1) for line in refused.values()]
    assert loaded == ("mtsi BPF const_k=4 linear_thr=50 loss_mtsi=0 per_ack=0 pacing=1 "
                      "thr=5,1048576 k=0,1024 mode=linear", 0)


@pytest.mark.parametrize("prepare, line", [
    (lambda libc: libc.prctl(PR_CAPBSET_DROP, CAP_BPF), "the capability CAP_BPF is missing"),
    (lambda libc: libc.personality(UNAME26), "is too old: a policy in BPF needs 6.1 or later"),
])
def test_loader_refuses_this_host(prepare, line):
    libc = ctypes.CDLL(None)
    done = subprocess.run([image.build_helper("satcc-bpf"), "load", "none.bpf.o"], text=True,
                          capture_output=True, preexec_fn=lambda: prepare(libc))
    assert done.returncode == 1 and done.stderr.startswith("satcc-bpf: ")
    assert done.stderr.endswith(f"{line}\n") and done.stderr.count("\n") == 1
