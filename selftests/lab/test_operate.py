# SPDX-License-Identifier: GPL-2.0
"""tools/satcc on a kernel with the pack: parameters of modules and BPF objects, what holds a module, and
how a recorded connection started."""

import re

import pytest

from bench.lab import bpf, image
from bench.measure import flow_view
from bench.paths import TOP
from selftests.conftest import KERNEL
from selftests.lab.test_tools import EVENTS, PythonLab, satcc_log
from tools.satcc_operate import start

pytestmark = pytest.mark.lab

TEXT = ("for name in {names}; do echo $name $(cat /sys/module/{module}/parameters/$name); done "
        "> $OUT/{file}")
REFUSED = "! satcc {words} 2> $OUT/{file}"
LINES = [
    f'satcc() {{ {PythonLab.python} satcc "$@"; }}',
    # ---- a module
    "modprobe tcp_satcc",
    "satcc set satcc queue_ms=40 hoe=0 > $OUT/set",
    TEXT.format(names="queue_ms hoe", module="tcp_satcc", file="after-set"),
    REFUSED.format(words="set satcc hoe=1 queue_ms=1001", file="refused-by-satcc"),
    # Without the index satcc does not find the module's file, and so no bounds.
    "mount --bind /dev/null /lib/modules/$(uname -r)/modules.dep",
    REFUSED.format(words="set satcc hoe=1 queue_ms=1001", file="refused-by-kernel"),
    "umount /lib/modules/$(uname -r)/modules.dep",
    TEXT.format(names="queue_ms hoe", module="tcp_satcc", file="after-refusals"),
    "satcc set mtsi thr=5,6 k=2,1 pacing=0 --persistent > $OUT/persistent",
    "modprobe tcp_mtsi",
    TEXT.format(names="thr k pacing", module="tcp_mtsi", file="after-load"),
    # ---- what holds it
    "ip netns add web",
    "echo reno cubic satcc > /proc/sys/net/ipv4/tcp_allowed_congestion_control",
    "ip netns exec web sh -c 'echo satcc > /proc/sys/net/ipv4/tcp_congestion_control'",
    "! rmmod tcp_satcc 2> $OUT/in-use",
    "satcc status --json > $OUT/held.json",
    "ip netns exec web sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control'",
    "satcc status --json > $OUT/free.json",
    "rmmod tcp_satcc",
    # ---- a BPF object
    "mount -t bpf none /sys/fs/bpf",
    "cp satcc-bpf /sbin",
    "mkdir -p /usr/lib/satcc",
    "cp ibk.bpf.o /usr/lib/satcc",
    "satcc load ibk k=7",
    "echo reno cubic ibk > /proc/sys/net/ipv4/tcp_allowed_congestion_control",
    "satcc list --json > $OUT/loaded.json",
    "satcc set ibk k=9 > $OUT/set-object",
    REFUSED.format(words="set ibk k=300", file="refused-object"),
    "satcc status --json > $OUT/object.json",
    "satcc unload ibk",
    "cat /proc/sys/net/ipv4/tcp_available_congestion_control > $OUT/available"]


@pytest.fixture(scope="module")
def played(geo, tmp_path_factory):
    """A run in which the commands above come before a short connection."""
    lab = PythonLab(image.build(KERNEL), tmp_path_factory.mktemp("python"))
    files = {"tools.zip": lab.tools, "satcc": (TOP / "tools/satcc").read_bytes(),
             "satcc-bpf": image.build_helper("satcc-bpf").read_bytes(),
             **bpf.files(bpf.build("6.1"), "ibk")}
    return lab.run(geo("cubic", bytes=1000, trace=[]), files, first=LINES)


def text(run, name):
    return run.read(name).decode()


def test_a_modules_parameters_are_set(played):
    assert text(played, "set") == "queue_ms=40 is in force (was 25)\nhoe=0 is in force (was 1)\n"
    assert text(played, "after-set") == "queue_ms 40\nhoe 0\n"


def test_a_refused_value_leaves_all_as_they_were(played):
    assert "queue_ms=1001 is out of bounds" in text(played, "refused-by-satcc")
    assert re.search(r"\nsatcc: cannot set /sys/module/tcp_satcc/parameters/queue_ms to 1001: .*; "
                     r"nothing has changed: hoe=0 queue_ms=40\n\Z", text(played, "refused-by-kernel"))
    assert text(played, "after-refusals") == text(played, "after-set")


def test_a_persistent_parameter_is_in_force_at_the_next_load(played):
    assert text(played, "after-load") == "thr 5,6\nk 2,1\npacing 0\n"


def test_what_holds_a_module_is_named(played):
    assert "in use" in text(played, "in-use")
    held, free = played.json("held.json"), played.json("free.json")
    assert held["holders"] == [{"policy": "satcc", "here": False, "namespace": "web", "process": None,
                                "command": None, "default": True, "sockets": 0, "programs": []}]
    assert free["holders"] == []


def test_a_bpf_object_is_loaded_set_and_unloaded(played):
    assert played.json("loaded.json") == [{"policy": "ibk", "parameters": {"k": "7", "pacing": "1"}}]
    assert text(played, "set-object") == "k=9 is in force (was 7)\n"
    assert "\nsatcc: k=300 is out of bounds; ibk has:\n" in text(played, "refused-object")
    state = played.json("object.json")
    assert state["bpf"] == [{"policy": "ibk", "parameters": {"k": "9", "pacing": "1"}}]
    assert "ibk" in state["allowed"] and "ibk" not in [each["policy"] for each in state["modules"]]
    assert "ibk" not in text(played, "available").split()


# ---- how a connection started ----------------------------------------------

@pytest.mark.parametrize("cc, reason", [("reno", "recovery"), ("hybla_full", "ack")])
def test_the_start_is_the_captures(lab, geo, tmp_path, cc, reason):
    """What a short queue drops in five RTTs is sent again; an ACK ends hybla_full's slow start."""
    run = lab.run(geo(cc, rate_mbit=2, queue_bdp=0.3, seconds=15, trace=EVENTS,
                      modules={"satcc_log": {}}))
    path = tmp_path / "log.tsv"
    assert satcc_log("decode", run.folder, "-o", path).returncode == 0
    one, = [each for each in start.read(path) if each.policy == cc]
    view = flow_view.FlowView(run)
    assert (one.end, round(one.rtt_s, 1)) == (reason, 0.6)
    first = view.segment_s[0]
    limit = (view.segment_seq + view.segment_len)[
        ~view.is_retransmit & (view.segment_s < first + start.RTTS * one.rtt_s)].max()
    again = {(seq, size) for seq, size in zip(view.segment_seq[view.is_retransmit],
                                              view.segment_len[view.is_retransmit]) if seq < limit}
    assert one.again == len(again) > 20
