# SPDX-License-Identifier: GPL-2.0
"""The lab itself: that a run repeats, that the link is the one asked for, and how it fails."""

import dataclasses
import hashlib
import itertools
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

from bench import paths
from bench.compare import geo as geo_suite
from bench.errors import LabError
from bench.lab import debug, image, machine, packages
from bench.measure import flow_view
from bench.record.run import traffic_hash
from selftests.conftest import KERNEL, long

pytestmark = pytest.mark.lab


def _spin():
    while True:
        pass


@pytest.fixture
def busy_host():
    """Every processor of the host has something else to do."""
    workers = [multiprocessing.Process(target=_spin, daemon=True) for _ in os.sched_getaffinity(0)]
    for worker in workers:
        worker.start()
    yield
    for worker in workers:
        worker.kill()
        worker.join()


@pytest.fixture(scope="module")
def lossy(geo):
    return geo("cubic", seconds=30, loss_pct=1)


def test_same_inputs_same_packets(lab, lossy, busy_host):
    """Twice the same hash, the second time on a busy host."""
    idle = lab.run(lossy, use_cache=True).hash
    assert lab.run(lossy, use_cache=False).hash == idle


@pytest.mark.long
def test_twenty_runs_one_hash(lab, geo):
    short = geo("hybla_full", seconds=10, loss_pct=1)
    assert len({lab.run(short, use_cache=False).hash for _ in range(20)}) == 1


@pytest.mark.parametrize("cc", ["satcc", *map(long, ("hybla_full", "westwood_abse", "cubic"))])
def test_without_chance_another_seed_gives_the_same_result(lab, geo, cc):
    """So one run is enough where Scenario.has_chance is false."""
    scenarios = [dataclasses.replace(geo(cc, seconds=10), seed=seed) for seed in (1, 2)]
    assert not scenarios[0].has_chance
    ends = [lab.run(one).json("flow-0.json") for one in scenarios]
    for name in ("bytes_acked", "data_segs_out", "total_retrans", "snd_cwnd"):
        assert ends[0][name] == ends[1][name], name


def test_five_seeds_five_hashes(lab, lossy):
    runs = [lab.run(dataclasses.replace(lossy, seed=seed)) for seed in range(1, 6)]
    assert len({run.hash for run in runs}) == 5
    # Other losses, not only other initial sequence numbers.
    assert len({flow_view.FlowView(run).acked_by(30) for run in runs}) == 5


@pytest.mark.long
def test_ten_lossy_minutes_repeat(lab, geo):
    """Longer than the kernel's random generator keeps a key (60 s)."""
    minutes = geo("cubic", seconds=600, loss_pct=1, trace=["tcp:tcp_probe"])
    first, second = (lab.run(minutes, use_cache=False) for _ in range(2))
    assert first.hash == second.hash
    assert flow_view.link_losses(first) > 100


def test_initramfs_is_reproducible(lab):
    image.build_once.cache_clear()
    assert image.build(KERNEL).identity == lab.image.identity


@pytest.fixture
def asked_at_every_look(monkeypatch):
    """The monitor is asked all the time, not only after a silence; how often it was."""
    asked = []
    monkeypatch.setattr(machine, "LOOK_S", 0.001)
    monkeypatch.setattr(machine, "LOOKS_PER_QUESTION", 1)
    # At this pace it may be given no turn between two questions.
    monkeypatch.setattr(machine, "STILL_ANSWERS", 10_000)
    for language in (machine.Monitor, machine.Prompt):
        def counted(monitor, ask=language.ask_time):
            asked.append(monitor)
            ask(monitor)
        monkeypatch.setattr(language, "ask_time", counted)
    return asked


def booted(lab, tmp_path, late=""):
    """Fingerprint of a new boot.  late: "main" or "guest", the emulator's thread that the host gives
    little time."""
    with machine.Machine(lab.image, tmp_path / "console.log") as booting:
        main = booting.process.pid
        for thread in map(int, os.listdir(f"/proc/{main}/task")):
            if late == ("main" if thread == main else "guest"):
                os.setpriority(os.PRIO_PROCESS, thread, 19)
        booting.wait_until_booted()
        return booting.fingerprint()


@pytest.fixture(scope="module")
def fingerprint(lab, tmp_path_factory):
    """Of a boot of which nothing is asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "LOOKS_PER_QUESTION", 1_000_000)
        return booted(lab, tmp_path_factory.mktemp("boot"), late="main")


@pytest.mark.long
def test_a_boot_repeats(lab, fingerprint, tmp_path):
    """All that is saved of a machine is the same, whichever of the emulator's threads is late.
    `python3 -m bench boots 50` boots fifty times on a busy host."""
    assert booted(lab, tmp_path, late="guest") == fingerprint


@pytest.mark.long
def test_a_boot_does_not_see_the_monitor(lab, fingerprint, tmp_path, asked_at_every_look):
    assert booted(lab, tmp_path) == fingerprint
    assert len(asked_at_every_look) > 100


def test_a_run_does_not_see_the_monitor(lab, lossy, asked_at_every_look):
    undisturbed = lab.run(lossy).hash
    asked_at_every_look.clear()
    assert lab.run(lossy, use_cache=False).hash == undisturbed
    assert len(asked_at_every_look) > 100


@pytest.mark.long
def test_a_new_boot_gives_the_same_packets(lab, lossy, tmp_path):
    machine.boot(lab.image, tmp_path)
    again = dataclasses.replace(lab.snapshot, state=tmp_path)
    files = machine.run_job(again, lab.job(lossy, {}), tmp_path / "run.log").files
    assert traffic_hash(files) == lab.run(lossy).hash


def test_a_run_leaves_the_saved_memory_as_it_is(lab):
    """Runs at the same time map the same file."""
    saved = lab.snapshot.state / machine.MEMORY
    before = hashlib.sha256(saved.read_bytes()).digest()
    machine.run_job(lab.snapshot, {"run": b"dd if=/dev/zero of=/run/out/much bs=1M count=20 2>&1\n"},
                    paths.BUILD / "log" / "memory.log")
    assert hashlib.sha256(saved.read_bytes()).digest() == before


@pytest.mark.long
def test_a_machine_waits_for_gdb(lab, tmp_path):
    """Restored but paused, until gdb lets it go on: here by D, which detaches."""
    stub = debug.Stub(tmp_path / "socket", tmp_path / "attach.gdb")
    states, ended = [], threading.Event()

    def attach():
        while not stub.socket.exists():
            if ended.wait(0.05):
                return
        with socket.socket(socket.AF_UNIX) as gdb:
            gdb.connect(str(stub.socket))
            states.append((tmp_path / "console.log").read_text())
            gdb.sendall(b"+$D#44")
            while gdb.recv(100):
                pass

    attached = threading.Thread(target=attach)
    attached.start()
    snapshot = machine.snapshot(lab.image, recorded=False)
    files = machine.run_job(snapshot, {"run": b"echo 1 > /run/out/done"}, tmp_path / "console.log",
                            stub=stub).files
    ended.set()
    attached.join()
    assert files["done"] == b"1\n" and states == [""]


@pytest.mark.parametrize("rate_mbit", [2, long(10)])
def test_bottleneck_sends_at_its_rate(lab, geo, rate_mbit):
    """Between any two frames while it is busy: the rate, within 0.1 %."""
    run = lab.run(geo("cubic", rate_mbit=rate_mbit, seconds=20, captures=["bottleneck"]))
    frames = run.bottleneck
    t = (frames.t - frames.t[0]) / 1e9
    busy = (t > 6) & (t < 10)               # the queue holds packets throughout
    sent = frames.wire[busy][1:].sum() * 8 / (t[busy][-1] - t[busy][0])
    assert sent == pytest.approx(rate_mbit * 1e6, rel=1e-3)


def test_delay_is_the_delay(lab, geo):
    """SYN to SYN-ACK: the base RTT, serialisation, and under 0.2 ms of guest work."""
    run = lab.run(geo("cubic", bytes=10_000, rtt_ms=600))
    packets = run.sender
    took = (packets.t[1] - packets.t[0]) / 1e9
    assert 0.6 <= took < 0.6 + 74 * 8 / 2e6 + 0.0002


def test_loss_rate_is_the_rate_asked(lab, geo):
    """1 % of the data packets, within the binomial 99.9 % interval; drawn behind the queue."""
    run = lab.run(geo("bbr", seconds=60, loss_pct=1, captures=["sender", "bottleneck"]))
    sent = len(run.bottleneck)
    lost = flow_view.link_losses(run)
    assert abs(lost - sent / 100) < 3.3 * np.sqrt(sent * 0.01 * 0.99)


def test_queue_holds_what_was_asked(lab, geo):
    """A queue of 40 packets never delays a segment by more than 40 packets' time."""
    run = lab.run(geo("cubic", queue_packets=40, bytes=2_000_000))
    assert flow_view.queue_drops(run) > 0
    rtt = run.json("flow-0.json")["rtt"] / 1e6
    assert rtt < 0.6 + 43 * 1514 * 8 / 2e6


def test_transfer_is_whole(lab, geo):
    run = lab.run(geo("cubic", bytes=1_000_000))
    view = flow_view.FlowView(run)
    assert run.json("flow-0.json")["bytes_acked"] >= 1_000_000
    assert view.transfer_s(1_000_000) > run.scenario.ideal_s(1_000_000)
    assert view.transfer_s(1_000_001 + 1) is None


def test_iperf3_gives_its_own_report(lab, geo):
    base = geo("cubic", bytes=500_000)
    run = lab.run(dataclasses.replace(base, flows=(dataclasses.replace(base.flows[0], tool="iperf3"),)))
    assert run.json("flow-0.json")["end"]["sum_sent"]["bytes"] >= 500_000


def test_a_run_stores_its_scenario_and_kernel(lab, lossy):
    run = lab.run(lossy)
    assert run.meta["kernel"] == lab.image.release
    assert run.meta["seed"] == 1 and run.meta["scenario_digest"] == lossy.digest()
    assert run.meta["emulator"] == machine.qemu_version()
    assert b"tcp-segmentation-offload: off" in run.read("offloads-gateway-left.txt")
    assert run.qdisc("gateway", "pfifo")["options"]["limit"] == 100


def test_module_version_is_recorded(lab, geo):
    run = lab.run(geo(bytes=100_000))
    built, = image.build_modules(lab.image.release).glob("hybla/*.ko")
    output = subprocess.run(["/sbin/modinfo", "-F", "srcversion", built], text=True,
                            capture_output=True, check=True).stdout.strip()
    assert run.meta["modules"]["tcp_hybla_full"] == output


# -- failures: one line, the console's path, nothing left behind ---------------

def emulators(owner):
    """Those that a process has started, by their scratch folder; its own end may be behind it."""
    scratch, pids = f"{paths.BUILD}/lab/machine-{owner}-".encode(), []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as words:
                    command = words.read()
                    if machine.QEMU.encode() in command and scratch in command:
                        pids.append(entry)
            except OSError:
                pass
    return pids


def failing(lab, tmp_path, script, **files):
    with pytest.raises(LabError) as caught:
        machine.run_job(lab.snapshot, {"run": script.encode(), **files}, tmp_path / "console.log")
    message = str(caught.value)
    assert "\n" not in message and str(tmp_path / "console.log") in message
    assert not emulators(os.getpid())
    return message


def test_a_panic_is_an_error(lab, tmp_path):
    assert "Kernel panic" in failing(lab, tmp_path, "echo c > /proc/sysrq-trigger")


def test_a_failed_command_is_named(lab, tmp_path):
    assert "ended with status 1" in failing(lab, tmp_path, "ip link show nosuch")


def test_a_guest_that_ends_early_is_an_error(lab, tmp_path):
    assert "truncated" in failing(lab, tmp_path, "poweroff -f; sleep 10")


def test_a_guest_that_loops_is_an_error(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "SILENCE_S", 1)
    assert "printed nothing for 1 s of virtual time" in failing(lab, tmp_path, "while :; do :; done")


def test_a_guest_that_waits_for_ever_is_an_error(lab, tmp_path):
    """Idle time is skipped: this takes seconds."""
    assert "printed nothing for 600 s of virtual time" in failing(lab, tmp_path, "sleep 1000000")


def test_a_guest_whose_time_stands_still_is_an_error(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "LOOKS_PER_QUESTION", 1)
    with machine.Machine(lab.image, tmp_path / "console.log") as paused:
        paused.monitor("stop")
        with pytest.raises(LabError, match="time stands still"):
            paused.wait(lambda: False)


def test_a_slow_host_is_no_stall(lab, tmp_path, monkeypatch):
    """Hours pass on the host's clock while a guest's one long step prints nothing."""
    hours = itertools.count(0, 3600)
    monkeypatch.setattr(machine, "time", types.SimpleNamespace(
        monotonic=lambda: next(hours), sleep=time.sleep))
    outcome = machine.run_job(lab.snapshot, {"run": b"sleep 300; echo 1 > /run/out/done"},
                              tmp_path / "console.log")
    assert outcome.files["done"] == b"1\n"


def test_a_stopped_emulator_is_no_stall(lab, tmp_path, monkeypatch):
    """The host gives it no turn for twice as many looks as a guest's time may stand still for."""
    looks, look = itertools.count(), machine.Channel.look
    limit = 2 * machine.STILL_ANSWERS * machine.LOOKS_PER_QUESTION

    def looked(monitor):
        number = next(looks)
        if number in (10, 10 + limit):
            emulator, = emulators(os.getpid())
            os.kill(int(emulator), signal.SIGSTOP if number == 10 else signal.SIGCONT)
        look(monitor)

    monkeypatch.setattr(machine, "LOOK_S", 0.005)
    monkeypatch.setattr(machine.Channel, "look", looked)
    machine.run_job(lab.snapshot, {"run": b"sleep 300"}, tmp_path / "console.log")
    assert next(looks) > limit


def test_a_wrong_set_up_is_refused(lab, geo, tmp_path):
    """The qdiscs and offloads that were asked for are compared with those that are present.

    The saved topology has another MTU, so the run sets up its own.
    """
    scenario = geo("cubic", bytes=1000, mtu=1400)
    asked = lab.job(scenario, {})
    for name, right, wrong, difference in (
            ("tc-gateway", b"rate 2000000bit", b"rate 3000000bit", 'gateway right lacks "rate":250000,'),
            ("tc-gateway", b"pfifo", b"pfifo_head_drop", 'gateway right has no "kind":"pfifo"'),
            ("set-gateway", b"left tso off", b"left tso on",
             "gateway left lacks tcp-segmentation-offload: off")):
        assert right in asked[name]
        with pytest.raises(LabError, match=f"the set-up differs from the scenario: {difference}"):
            lab.run(scenario, {name: asked[name].replace(right, wrong)})


def test_a_run_that_takes_too_long_is_an_error(lab, geo):
    with pytest.raises(LabError, match="not done after 3 s"):
        lab.run(geo("cubic", bytes=10_000_000, max_seconds=3))


def test_an_unknown_congestion_control_is_refused(lab, geo):
    with pytest.raises(LabError, match="no congestion control nosuch"):
        lab.run(geo("nosuch", bytes=1000))


def test_an_unknown_kernel_is_refused():
    with pytest.raises(LabError, match="no packaged kernel 9.9 .*6.1"):
        packages.kernel_release("9.9")


ONE_RUN = ["run", "{scenario}", "--cc", "cubic"]


@pytest.fixture
def long_transfer(tmp_path):
    """The file of a scenario that plays for much longer than any test waits before it interrupts."""
    scenario = (paths.TOP / "bench/scenarios/geo-10mbit.toml").read_text()
    file = tmp_path / "long.toml"
    file.write_text(re.sub(r"bytes = .*", "bytes = 200_000_000", scenario))
    return file


@pytest.mark.parametrize("arguments, number", [
    (ONE_RUN, signal.SIGINT), ([], signal.SIGTERM),
    long(ONE_RUN, signal.SIGTERM), long([], signal.SIGINT)],
    ids=["one run-2", "comparison-15", "one run-15", "comparison-2"])
def test_interrupt_leaves_nothing(lab, long_transfer, arguments, number):
    """Ctrl-C: exit 130, no emulator, no scratch folder, no half-written run."""
    arguments = [word.format(scenario=long_transfer) for word in arguments]
    bench = subprocess.Popen(
        [sys.executable, "-m", "bench", "--fresh", "--name", "interrupted", *arguments],
        cwd=paths.TOP, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))     # a job's may be off
    try:
        while not emulators(bench.pid) and bench.poll() is None:
            time.sleep(0.02)
        assert emulators(bench.pid)
        time.sleep(1)                           # somewhere in its course
        bench.send_signal(number)
        output, _ = bench.communicate()           # a deaf one plays on to its end
    finally:
        if bench.poll() is None:
            os.killpg(bench.pid, signal.SIGKILL)
    assert bench.returncode == 130, output
    assert "interrupted" in output and "Traceback" not in output
    assert not emulators(bench.pid)
    assert not list((paths.BUILD / "lab").glob(f"machine-{bench.pid}-*"))
    assert not list((paths.BUILD / "runs").glob(f"*/part-{bench.pid}-*"))


def test_a_warning_of_the_kernel_ends_the_run(lab, tmp_path):
    """A WARN is below what the console shows, so it has to be a panic."""
    files = machine.run_job(lab.snapshot, {"run": b"cat /proc/sys/kernel/panic_on_warn > /run/out/w"},
                            tmp_path / "console.log").files
    assert files["w"] == b"1\n"


def test_parameters_reach_a_loaded_module(lab, geo):
    """The kernel's hybla is loaded before the snapshot; rtt0 makes rho 1 of 24."""
    plain = lab.run(geo("hybla", bytes=100_000))
    tamed = lab.run(geo("hybla", bytes=100_000, modules={"tcp_hybla": {"rtt0": 600}}))
    assert flow_view.cwnd_series(tamed)[1].max() < 200 < flow_view.cwnd_series(plain)[1].max()


@pytest.mark.parametrize("table, message", [
    ({"seed": "x"}, 'seed = "x": a whole number'), ({"capture": 1}, "capture = 1: true or false"),
    ({"nosuch": 1}, "nosuch = 1: unknown key"), ({"family": 5}, "family = 5: 4 or 6"),
    ({"line": {"ecn": True}}, "ecn needs loss_pct or an aqm"),
    ({"line": {"loss_pct": 101}}, "loss_pct = 101: a number from 0 to 100"),
    ({"rtt_ms": 0, "line": {"reorder_pct": 1}}, "reorder_pct needs a delay"),
    ({"flow": {"write_ms": 5}}, "write_bytes and write_ms need each other"),
    ({"change": [{"at_s": 1, "hop": "moon", "forward": {"delay_ms": 1}}]}, "no hop 'moon'"),
    ({"change": [{"at_s": 1, "hop": "gateway", "forward": {"delay_ms": 1}}]},
     "a bottleneck only a rate")])
def test_a_scenario_with_a_mistake_is_refused(geo, table, message):
    with pytest.raises(LabError, match=message):
        geo("cubic", bytes=1000, **table)


def test_host_engine_runs_or_explains_why_not():
    done = subprocess.run(
        [sys.executable, "-m", "bench", "run", "bench/scenarios/geo-2mbit.toml", "--engine", "host",
         "--cc", "cubic"], cwd=paths.TOP, text=True, capture_output=True)
    if done.returncode:
        assert len(done.stderr.strip().splitlines()) == 1 and "cannot run here: " in done.stderr
    else:
        assert "1000000 bytes in" in done.stdout


def test_a_transfer_of_the_acceptance_suite_is_given_up(lab):
    """5 MB take 20 s at 2 Mbit/s; after 5 s the sender stops, and the run is none that failed."""
    row = geo_suite.Row("slow", rtt_ms=100, bytes=(5_000_000,), forward_mbit=2, return_mbit=2,
                        give_up_s=5)
    run = lab.run(row.scenario("cubic", 5_000_000, 1))
    view = flow_view.FlowView(run)
    assert view.transfer_s(5_000_000) is None
    assert 500_000 < run.json("flow-0.json")["bytes_acked"] < 1_300_000
