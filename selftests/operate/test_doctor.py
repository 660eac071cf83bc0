# SPDX-License-Identifier: GPL-2.0
"""satcc doctor: a healthy host, and each fault planted into it.

Files, sysctls and modules are in a folder that stands in for /.  Routes, rules, sockets and qdiscs
are real, in namespaces of the test's own, where cubic and reno stand for the pack's policies.
"""

import contextlib
import json
import lzma
import os
import pathlib
import re
import shlex
import socket
import threading
import time

import pytest

from selftests.operate.net import TOP, namespaces, run
from tools.satcc_operate import doctor, policies, sockets
from tools.satcc_operate.holders import identity
from tools.satcc_operate.host import Host, in_namespace

RELEASE, OLDER, NEWER = "6.1.0-56-amd64", "6.1.0-9-amd64", "6.1.0-100-amd64"
PREFIX = "203.0.113.0/24"
MODULE = b"\x7fELF\0version=0.1\0srcversion=ABC123\0"


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else f"{text}\n".encode())


def sysctl(name):
    return f"proc/sys/net/ipv4/{name}"


def kernel(release, modules=("tcp_satcc", "tcp_hybla_full"), suffix=""):
    """The files of an installed kernel."""
    folder = f"lib/modules/{release}"
    return {f"{folder}/modules.dep": "\n".join(f"updates/satcc/{name}.ko{suffix}:" for name in modules),
            f"{folder}/build/Makefile": "",
            **{f"{folder}/updates/satcc/{name}.ko{suffix}":
               lzma.compress(MODULE + bytes(10000)) if suffix else MODULE for name in modules}}


def loaded(policy, references=0):
    folder = f"sys/module/tcp_{policy}"
    return {f"{folder}/version": "0.1", f"{folder}/srcversion": "ABC123", f"{folder}/refcnt": references,
            f"{folder}/parameters/queue_ms": "25", f"{folder}/parameters/hoe": "Y"}


HEALTHY = {
    "proc/sys/kernel/osrelease": RELEASE,
    sysctl("tcp_available_congestion_control"): "reno cubic satcc",
    sysctl("tcp_allowed_congestion_control"): "reno cubic satcc",
    sysctl("tcp_congestion_control"): "cubic",
    sysctl("tcp_sack"): 1, sysctl("tcp_timestamps"): 1, sysctl("tcp_window_scaling"): 1,
    sysctl("tcp_wmem"): "4096\t16384\t4194304",
    "sys/module/module/parameters/sig_enforce": "N",
    "sys/kernel/security/lockdown": "[none] integrity confidentiality", "sys/kernel/btf/vmlinux": "",
    **kernel(OLDER, ()), **kernel(RELEASE), **loaded("satcc"),
    "etc/modules-load.d/satcc.conf": "# policies\ntcp-satcc",
    "etc/sysctl.d/90-satcc.conf": "net.ipv4.tcp_allowed_congestion_control = reno cubic satcc\n"
                                  "net/ipv4/tcp_congestion_control=cubic",
    "etc/modprobe.d/satcc.conf": "options tcp_satcc queue_ms=0x19 hoe=1",
}


@pytest.fixture
def host(net, tmp_path):
    """A healthy host: one route of satcc's, saved, and a connection over it."""
    net.root = tmp_path / "root"
    write(net.root, HEALTHY)
    net.satcc("route", "add", PREFIX, "cubic", check=True)
    net.satcc("route", "save", check=True)
    with net.connection("203.0.113.1"):
        yield net


@pytest.fixture(scope="module")
def quiet_net(can_use_namespaces):
    """Namespaces for tests that change files only."""
    with namespaces("-quiet") as net, net.connection("203.0.113.1"):
        yield net


@pytest.fixture
def files(quiet_net, tmp_path):
    """The folder of a healthy host without a route of satcc's."""
    quiet_net.root = tmp_path
    write(tmp_path, HEALTHY)
    return tmp_path


def findings_of_files(net):
    """As findings(), without a process."""
    return in_namespace(f"/run/netns/{net.sender}", lambda: doctor.examine(Host(net.root)))


def findings(net):
    done = net.satcc("doctor", "--json")
    assert done.stderr == ""
    listed = json.loads(done.stdout)
    assert done.returncode == (1 if listed else 0)
    return listed


def test_a_healthy_host_has_no_finding(host):
    assert findings(host) == []
    done = host.satcc("doctor")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ibk is loaded as a BPF object, and allowed now and at the next boot.
BPF_ONLY = {"usr/share/satcc/ibk.bpf.o": "",
            "etc/sysctl.d/99.conf": "net.ipv4.tcp_allowed_congestion_control = reno cubic satcc ibk",
            sysctl("tcp_available_congestion_control"): "reno cubic satcc ibk",
            sysctl("tcp_allowed_congestion_control"): "reno cubic satcc ibk"}

# Faults that are files: name of the finding, files written, a word of the text, the command.
PLANTED = [
    ("module-missing", {**kernel(RELEASE, ()), "remove": ["sys/module/tcp_satcc",
                                                          f"lib/modules/{RELEASE}/updates"],
                        "etc/sysctl.d/90-satcc.conf": "", "etc/modprobe.d/satcc.conf": "",
                        sysctl("tcp_available_congestion_control"): "reno cubic"},
     f"no policy of satcc is installed for the running kernel {RELEASE}", "make install"),
    ("module-missing", {"etc/sysctl.d/99.conf": "net.ipv4.tcp_allowed_congestion_control = "
                                                "reno cubic satcc mtsi",
                        sysctl("tcp_allowed_congestion_control"): "reno cubic satcc mtsi"},
     "names mtsi", "make install"),
    ("policy-unknown", {"etc/sysctl.d/99.conf": "net.ipv4.tcp_allowed_congestion_control = "
                                                "reno cubic satcc brutal",
                        sysctl("tcp_allowed_congestion_control"): "reno cubic satcc brutal"},
     "names brutal", "$EDITOR /etc/sysctl.d/99.conf"),
    ("module-missing-newest", kernel(NEWER, ("tcp_hybla_full",)),
     f"the kernel {NEWER}, which the next boot may use, lacks tcp_satcc",
     f"make install KERNELRELEASE={NEWER}"),
    ("module-missing-newest", {f"lib/modules/{NEWER}/modules.dep": "kernel/net/tcp_bbr.ko:",
                               "var/lib/dkms/satcc/0.1/source": ""},
     f"the kernel {NEWER}", f"apt install linux-headers-{NEWER} && dkms autoinstall -k {NEWER}"),
    ("module-not-indexed", {f"lib/modules/{RELEASE}/updates/dkms/tcp_mtsi.ko": MODULE},
     "tcp_mtsi", f"depmod {RELEASE}"),
    ("module-unsigned", {"sys/module/module/parameters/sig_enforce": "Y",
                         f"lib/modules/{RELEASE}/updates/satcc/tcp_hybla_full.ko":
                         MODULE + policies.SIGNATURE}, "refuses tcp_satcc", "sign-file sha256"),
    ("module-unsigned", {"sys/kernel/security/lockdown": "none [integrity] confidentiality",
                         f"lib/modules/{RELEASE}/updates/satcc/tcp_hybla_full.ko":
                         MODULE + policies.SIGNATURE}, "lockdown=integrity", "sign-file sha256"),
    ("module-stale", {"sys/module/tcp_satcc/srcversion": "DEF456"}, "DEF456",
     "modprobe -r tcp_satcc && modprobe tcp_satcc"),
    ("module-blocked", {"etc/modprobe.d/no.conf": "install tcp_satcc /bin/false"},
     "/etc/modprobe.d/no.conf", " /etc/modprobe.d/no.conf"),
    ("module-blocked", {"usr/lib/modprobe.d/no.conf": "blacklist tcp-satcc"},
     "/usr/lib/modprobe.d/no.conf", "/usr/lib/modprobe.d/no.conf"),
    ("parameter-differs", {"sys/module/tcp_satcc/parameters/queue_ms": "50"},
     "queue_ms of tcp_satcc is 50",
     "satcc set satcc queue_ms=0x19"),
    ("parameter-unknown", {"etc/modprobe.d/z.conf": "options tcp_satcc nosuch=1"}, "nosuch",
     "$EDITOR /etc/modprobe.d/z.conf"),
    ("module-held", loaded("satcc", references=2), "tcp_satcc has 2 references", "reboot"),
    ("load-missing", {"remove": ["etc/modules-load.d"]}, "names satcc",
     "echo tcp_satcc >> /etc/modules-load.d/satcc.conf"),
    ("load-missing", BPF_ONLY, "/etc/sysctl.d/99.conf names ibk, which is no module here",
     "systemctl enable satcc-bpf@ibk"),
    ("default-not-in-force", {sysctl("tcp_congestion_control"): "reno"}, "is 'reno'",
     "sysctl -w net.ipv4.tcp_congestion_control=cubic"),
    ("allowed-not-in-force", {sysctl("tcp_allowed_congestion_control"): "reno satcc"}, "'reno satcc'",
     "sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic satcc'"),
    ("allowed-not-in-force", {"remove": ["sys/module/tcp_satcc"],       # unloaded: the kernel forgets it
                              sysctl("tcp_available_congestion_control"): "reno cubic",
                              sysctl("tcp_allowed_congestion_control"): "reno cubic"}, "'reno cubic'",
     "modprobe tcp_satcc && sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic satcc'"),
    ("policy-not-allowed", {sysctl("tcp_allowed_congestion_control"): "reno cubic",
                            "etc/sysctl.d/90-satcc.conf": ""}, "satcc is loaded, but nothing selects it",
     "sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic satcc'"),
    ("sack-off", {sysctl("tcp_sack"): 0}, "SACK is off", "sysctl -w net.ipv4.tcp_sack=1"),
    ("timestamps-off", {sysctl("tcp_timestamps"): 0}, "timestamps are off",
     "sysctl -w net.ipv4.tcp_timestamps=1"),
    ("window-scaling-off", {sysctl("tcp_window_scaling"): 0}, "64 kB",
     "sysctl -w net.ipv4.tcp_window_scaling=1"),
    ("send-buffer-small", {sysctl("tcp_wmem"): "4096 16384 262144"}, "262144 bytes",
     "sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304'"),
    ("name-taken", {sysctl("tcp_available_congestion_control"): "reno cubic satcc hybla_full",
                    sysctl("tcp_allowed_congestion_control"): "reno cubic satcc hybla_full"},
     "a BPF object has the name hybla_full, so the installed tcp_hybla_full",
     "satcc-bpf unload hybla_full && modprobe tcp_hybla_full"),
    ("btf-missing", {"remove": ["sys/kernel/btf"], "usr/lib/satcc/bpf/ibk.bpf.o": ""},
     f"the kernel {RELEASE} has no BTF (CONFIG_DEBUG_INFO_BTF), so ibk.bpf.o cannot", "make install"),
    ("saved-file-bad", {"etc/satcc/routes.json": "{}"}, "routes.json", "satcc route save"),
    ("saved-file-bad", {"etc/satcc/routes.json": '{"version": 1, "routes": [7]}'}, "7 is not a route",
     "satcc route save"),
    *[("default-loud", {sysctl("tcp_congestion_control"): policy,
                        sysctl("tcp_available_congestion_control"): f"reno cubic satcc {policy}",
                        "etc/sysctl.d/99.conf": f"net.ipv4.tcp_congestion_control={policy}",
                        **loaded(policy),
                        **kernel(RELEASE, ("tcp_satcc", "tcp_hybla_full", f"tcp_{policy}"))},
       f"{policy} is the policy of the whole host", "tcp_congestion_control=cubic")
      for policy in ("hybla_full", "hybla", "ibk")],
]


def plant(root, files):
    files = dict(files)
    for name in files.pop("remove", []):
        run("rm", "-r", root / name)
    write(root, files)


@pytest.mark.parametrize("name, planted, text, mend", PLANTED,
                         ids=[f"{number}-{each[0]}" for number, each in enumerate(PLANTED)])
def test_a_planted_file_is_the_only_finding(quiet_net, files, name, planted, text, mend):
    assert findings_of_files(quiet_net) == []
    plant(files, planted)
    finding, = findings_of_files(quiet_net)
    assert finding.name == name and text in finding.text and mend in finding.mend
    assert "\n" not in finding.text + finding.mend


@pytest.mark.parametrize("planted", [
    {"remove": ["sys/kernel/btf"]},                             # nobody needs it
    {"usr/share/satcc/ibk.bpf.o": ""},                          # and it is there
    {"remove": ["sys/module/tcp_satcc", "etc/modprobe.d", "etc/modules-load.d",     # no module at all
                f"lib/modules/{RELEASE}"]},
    {f"lib/modules/{RELEASE}/modules.builtin": "kernel/net/ipv4/tcp_ibk.ko",
     **{sysctl(f"tcp_{which}_congestion_control"): "reno cubic satcc ibk"
        for which in ("available", "allowed")}},
    {"remove": ["sys/module/tcp_satcc", "etc/modprobe.d", "etc/modules-load.d", "etc/sysctl.d",
                f"lib/modules/{RELEASE}"], "usr/lib/satcc/satcc.bpf.o": "",
     sysctl("tcp_available_congestion_control"): "reno cubic"},
    {**BPF_ONLY, "etc/systemd/system/sysinit.target.wants/satcc-bpf@ibk.service": ""}],
    ids=["no-btf", "btf", "bpf-alone", "builtin", "object-not-loaded", "object-at-boot"])
def test_a_healthy_host_with_or_without_bpf(quiet_net, files, planted):
    """An object carries satcc in the third."""
    plant(files, planted)
    assert findings_of_files(quiet_net) == []


def test_the_command_that_sets_a_parameter(quiet_net, files):
    plant(files, {"sys/module/tcp_satcc/parameters/queue_ms": "50"})
    finding, = findings_of_files(quiet_net)
    run("env", f"SATCC_ROOT={files}", TOP / "tools" / "satcc", *shlex.split(finding.mend)[1:])
    assert findings_of_files(quiet_net) == []


def test_a_parameter_that_cannot_be_written_needs_its_module_again(quiet_net, files):
    """As thr of mtsi: 0444 in /sys."""
    plant(files, {"sys/module/tcp_satcc/parameters/queue_ms": "50"})
    (files / "sys/module/tcp_satcc/parameters/queue_ms").chmod(0o444)
    finding, = findings_of_files(quiet_net)
    assert (finding.name, finding.mend) == ("parameter-differs",
                                            "modprobe -r tcp_satcc && modprobe tcp_satcc")


@pytest.mark.parametrize("policy, line", [
    ("satcc", "blacklist tcp-satcc"), ("satcc", "  install\ttcp_satcc /bin/false"),
    ("satcc", "blacklist tcp_satcc"), ("hybla_full", "blacklist tcp-hybla-full"),
    ("hybla_full", "install tcp_hybla-full /usr/bin/true")])
def test_the_command_that_unblocks_a_module(quiet_net, files, policy, line):
    """Typed, it removes the line that blocks and leaves the file's others."""
    kept = ["# blacklist tcp_satcc, tcp_hybla_full", "options tcp_satcc queue_ms=25",
            "options tcp_hybla_full hoe=1", "blacklist tcp_satcc_other", "install tcp_satcc-x /bin/true"]
    plant(files, {"etc/modprobe.d/no.conf": "\n".join([*kept[:2], line, *kept[2:]])})
    finding, = findings_of_files(quiet_net)
    assert finding.name == "module-blocked"
    words = shlex.split(finding.mend)
    assert words[-1] == "/etc/modprobe.d/no.conf"
    run(*words[:-1], files / "etc/modprobe.d/no.conf")
    assert (files / "etc/modprobe.d/no.conf").read_text().splitlines() == kept
    assert findings_of_files(quiet_net) == []


@pytest.mark.parametrize("answer, reason, mend", [
    ("mok.pub is not enrolled", "does not know the key /var/lib/dkms/mok.pub",
     "mokutil --import /var/lib/dkms/mok.pub && reboot   # then confirm the key in the menu"),
    ("mok.pub is already in the enrollment request", "waits for its confirmation", "reboot   # then"),
    ("mok.pub is already enrolled", None, None), (None, None, None)])
def test_a_key_that_is_not_enrolled(quiet_net, files, tmp_path, monkeypatch, answer, reason, mend):
    """The modules are signed, with a key that the firmware does not know; or there is no mokutil."""
    signed = {f"lib/modules/{RELEASE}/updates/satcc/{module}.ko": MODULE + policies.SIGNATURE
              for module in ("tcp_satcc", "tcp_hybla_full")}
    plant(files, {"sys/module/module/parameters/sig_enforce": "Y", "var/lib/dkms/mok.pub": "", **signed})
    (tmp_path / "bin").mkdir()
    if answer:
        (tmp_path / "bin/mokutil").write_text(
            f'#!/bin/sh\n[ "$*" = "--test-key {files}/var/lib/dkms/mok.pub" ] && echo {answer}\n')
        (tmp_path / "bin/mokutil").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    listed = findings_of_files(quiet_net)
    if not mend:
        assert listed == []
        return
    finding, = listed
    assert finding.name == "key-not-enrolled" and finding.mend.startswith(mend)
    assert reason in finding.text
    assert "refuses tcp_hybla_full (modprobe: Key was rejected" in finding.text


def test_each_finding_is_a_line(host):
    plant(host.root, {sysctl("tcp_sack"): 0, sysctl("tcp_timestamps"): 0})
    first, second = findings(host)
    assert host.satcc("doctor").stdout == "".join(
        f"{each['name']}: {each['text']}: {each['mend']}\n" for each in (first, second))


def test_a_saved_policy_that_is_not_installed(host):
    """And without headers there is nothing to build with."""
    plant(host.root, {"remove": [f"lib/modules/{RELEASE}/build"], "etc/satcc/routes.json": json.dumps(
        {"version": 1, "routes": [{"prefix": PREFIX, "policy": "cubic"},
                                  {"prefix": PREFIX, "policy": "ibk", "port": 443}]})})
    first, second = findings(host)
    assert (first["name"], second["name"]) == ("module-missing", "route-not-restored")
    assert "/etc/satcc/routes.json names ibk" in first["text"]
    assert first["mend"] == f"apt install linux-headers-{RELEASE} && make install"


def test_compressed_modules_are_read(host):
    plant(host.root, {"remove": [f"lib/modules/{RELEASE}/updates"],
                      **kernel(RELEASE, suffix=".xz"), "sys/module/tcp_satcc/srcversion": "DEF456"})
    assert [each["name"] for each in findings(host)] == ["module-stale"]


def test_a_later_file_overrides_and_an_earlier_folder_wins(host):
    """sysctl.d: 99 after 90, and /etc hides /usr/lib."""
    write(host.root, {"usr/lib/sysctl.d/90-satcc.conf": "net.ipv4.tcp_congestion_control=reno",
                      "usr/lib/sysctl.d/10.conf": "net.ipv4.tcp_congestion_control=reno"})
    assert findings(host) == []
    write(host.root, {"usr/lib/sysctl.d/91.conf": "net.ipv4.tcp_congestion_control=reno"})
    assert [each["name"] for each in findings(host)] == ["default-not-in-force"]


def test_a_link_gives_sysctl_conf_its_place(quiet_net, files):
    """Debian's 99-sysctl.conf comes before zz.conf; without the link the file counts last."""
    write(files, {"etc/sysctl.conf": "net.ipv4.tcp_congestion_control=reno",
                  "etc/sysctl.d/zz.conf": "net.ipv4.tcp_congestion_control=cubic"})
    finding, = findings_of_files(quiet_net)
    assert finding.name == "default-not-in-force" and "/etc/sysctl.conf sets 'reno'" in finding.text
    (files / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    assert findings_of_files(quiet_net) == []
    (files / "etc/sysctl.d/zz.conf").unlink()
    finding, = findings_of_files(quiet_net)
    assert "/etc/sysctl.d/99-sysctl.conf sets 'reno'" in finding.text


@pytest.mark.parametrize("planted", [
    {"sys/module/tcp_satcc/holders/tcp_other/refcnt": 0, **loaded("satcc", references=1)},
    {sysctl("tcp_congestion_control"): "satcc", **loaded("satcc", references=1),
     "etc/sysctl.d/99.conf": "net.ipv4.tcp_congestion_control=satcc"}], ids=["module", "default"])
def test_a_module_that_is_held_for_a_reason(quiet_net, files, planted):
    write(files, planted)
    assert findings_of_files(quiet_net) == []


def plant_process(root, number, space):
    """A process of a network namespace."""
    folder = root / f"proc/{number}/ns"
    folder.mkdir(parents=True)
    (folder / "net").symlink_to(f"/run/netns/{space}")


@pytest.fixture
def held_cubic(quiet_net, files, monkeypatch):
    """A module that a socket of the receiver's namespace holds, which has neither a name nor a process.

    cubic stands for a policy of the pack, and /proc of the stand-in has no process.
    """
    monkeypatch.setattr(policies, "POLICIES", ("cubic",))
    plant(files, {"remove": [f"lib/modules/{RELEASE}/updates"], sysctl("tcp_congestion_control"): "reno",
                  "etc/sysctl.d/90-satcc.conf": "", "etc/modprobe.d/satcc.conf": ""})
    write(files, {**kernel(RELEASE, ("tcp_cubic",)), **loaded("cubic", references=1)})
    with quiet_net.connection("203.0.113.1", 5001) as (_, accepted):
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        yield quiet_net


def test_a_module_that_a_namespace_without_a_name_holds(held_cubic, files):
    """As a container: a reboot is not what mends that."""
    plant_process(files, 12, held_cubic.sender)
    finding, = findings_of_files(held_cubic)
    assert (finding.name, finding.mend) == ("module-held", "reboot")
    plant_process(files, 30, held_cubic.receiver)
    assert findings_of_files(held_cubic) == []


def test_a_module_to_be_loaded_again_has_its_holders_named(held_cubic, files):
    plant_process(files, 30, held_cubic.receiver)
    write(files, {"sys/module/tcp_cubic/srcversion": "DEF456", "proc/30/comm": "nginx"})
    finding, = findings_of_files(held_cubic)
    assert (finding.name, finding.mend) == (
        "module-stale", "modprobe -r tcp_cubic && modprobe tcp_cubic   # first end what holds it: "
        f"1 socket of python3 ({os.getpid()}) in the namespace of process 30 (nginx)")


def test_only_root_sees_what_holds_a_module(quiet_net, files, monkeypatch):
    write(files, loaded("satcc", references=2))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    finding, = findings_of_files(quiet_net)
    assert (finding.name, finding.mend) == ("not-checked", "sudo satcc doctor")


def test_module_holders_are_not_checked_with_netns(quiet_net, files):
    """The holder may be in the first one."""
    write(files, loaded("satcc", references=2))
    findings = in_namespace(f"/run/netns/{quiet_net.sender}",
                            lambda: doctor.examine(Host(quiet_net.root, quiet_net.sender)))
    assert findings == []


def test_the_kernel_loads_the_default_policy_itself(quiet_net, files):
    plant(files, {"remove": ["etc/modules-load.d"], sysctl("tcp_congestion_control"): "satcc",
                  "etc/sysctl.d/90-satcc.conf": "net.ipv4.tcp_congestion_control = satcc"})
    assert findings_of_files(quiet_net) == []


def not_allowed(net, namespace=None):
    """The findings about policies that are not allowed, where cubic alone is the pack's."""
    return in_namespace(f"/run/netns/{net.sender}", lambda: list(
        doctor.allowed_policies(doctor.View(Host(net.root, namespace)))))


@pytest.fixture
def cubic_is_not_allowed(quiet_net, files, monkeypatch):
    """And another namespace has a name."""
    monkeypatch.setattr(policies, "POLICIES", ("cubic",))
    write(files, {sysctl("tcp_congestion_control"): "reno",
                  sysctl("tcp_allowed_congestion_control"): "reno satcc"})
    (files / "run/netns").mkdir(parents=True)
    (files / "run/netns/sat").symlink_to(f"/run/netns/{quiet_net.receiver}")
    finding, = not_allowed(quiet_net)
    assert finding.name == "policy-not-allowed"
    return quiet_net


def test_a_route_of_another_namespace_selects_a_policy(cubic_is_not_allowed):
    net = cubic_is_not_allowed
    words = ("198.51.100.0/24", "via", "192.0.2.1", "congctl", "cubic")
    run("ip", "-n", net.receiver, "route", "add", *words)
    try:
        assert not_allowed(net) == []
    finally:
        run("ip", "-n", net.receiver, "route", "del", *words)
    assert len(not_allowed(net)) == 1


def test_a_socket_of_another_namespace_uses_a_policy(cubic_is_not_allowed):
    net = cubic_is_not_allowed
    with net.connection("203.0.113.1", 5001) as (_, accepted):
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        assert not_allowed(net) == []


def test_in_a_namespace_by_name_nothing_can_be_allowed(cubic_is_not_allowed):
    """The sysctl is read-only there."""
    assert not_allowed(cubic_is_not_allowed, "sat") == []


def shares(policy):
    """What a policy leaves a cubic flow, in percent of its share, by RTT: the bench's own table."""
    text = (TOP / "bench/RESULTS.md").read_text().partition("<!-- table: beside -->")[2]
    words = re.search(rf"^\| {policy} \|(.*)\|$", text, re.M)[1].split("|")
    return {"40 ms": int(words[2]), "250 ms": int(words[6])}


@pytest.mark.parametrize("policy", policies.LOUD)
def test_a_loud_policy_has_a_figure(policy):
    measured = shares(policy)
    rtt = min(measured, key=measured.get)
    assert measured[rtt] < 50 and f"share at {rtt}" in policies.LOUD[policy]


def test_the_figure_of_two_flows():
    times = re.search(r"(\d+) times", policies.LOUD["hybla_full"])[1]
    results = (TOP / "modules/RESULTS-satcc.md").read_text()
    text = results.partition("<!-- table: goal two-beside-two -->")[2]
    measured = re.search(r"^\| hybla_full \| ([\d.]+) ", text, re.M)[1]
    assert round(float(measured)) == int(times)


def test_the_policies_of_the_pack_that_are_not_loud():
    for policy in set(policies.POLICIES) - set(policies.LOUD):
        assert min(shares(policy).values()) >= 50, policy


def test_more_may_be_allowed_than_is_listed(quiet_net, files):
    """The kernel adds the default, and policies that allow themselves."""
    write(files, {sysctl("tcp_allowed_congestion_control"): "bbr reno cubic satcc"})
    assert findings_of_files(quiet_net) == []


@pytest.mark.parametrize("mend, outside", [
    ("sysctl -w net.ipv4.tcp_sack=1", "ip netns exec sat sysctl -w net.ipv4.tcp_sack=1"),
    ("satcc route add 203.0.113.0/24 satcc", "satcc route add --netns sat 203.0.113.0/24 satcc"),
    ("sudo satcc doctor", "sudo satcc doctor --netns sat"), ("make install", "make install")])
def test_commands_for_a_namespace(mend, outside):
    assert doctor.for_namespace(mend, "sat") == outside
    assert doctor.for_namespace(mend, None) == mend


# ---- faults of the live kernel ---------------------------------------------

def mend(net, finding):
    """Type what the finding says, where it is a command of satcc or ip."""
    words = shlex.split(finding["mend"].split("#")[0])
    if words[0] == "satcc":
        net.satcc(*words[1:], check=True)
    else:
        run("ip", "netns", "exec", net.sender, *words)


def check_and_mend(net, name, text, count=1):
    """The planted fault is the only kind of finding, and its command makes the host healthy."""
    listed = findings(net)
    assert [each["name"] for each in listed] == [name] * count, listed
    assert text in listed[0]["text"]
    mend(net, listed[0])
    net.satcc("route", "save", check=True)
    assert findings(net) == []


def test_a_more_specific_route_without_a_policy(host):
    host.ip("route", "add", "203.0.113.128/25", "via", "192.0.2.2")
    check_and_mend(host, "route-shadowed", "cubic of 203.0.113.0/24 does not reach it")


def test_a_route_with_a_smaller_metric(host):
    host.ip("-6", "route", "add", "2001:db8:1::/48", "via", "2001:db8::2", "congctl", "cubic")
    assert findings(host) == []
    host.ip("-6", "route", "add", "2001:db8:1::/48", "via", "2001:db8::2", "metric", "512")
    listed = findings(host)
    assert [each["name"] for each in listed] == ["route-shadowed"]


@pytest.mark.parametrize("words", [
    ["203.0.113.128/25", "via", "192.0.2.2", "congctl", "reno"],        # chosen on purpose
    ["203.0.113.128/25", "dev", "lo"],                                  # another path
    *[["203.0.113.128/25", "dev", "v0", "proto", proto] for proto in ("ra", "dhcp", "boot")],   # near
    ["203.0.114.0/24", "via", "192.0.2.2"], ["203.0.113.0/24", "via", "192.0.2.2"],
    ["blackhole", "203.0.113.128/25"]])
def test_routes_that_shadow_nothing(host, words):
    host.ip("route", "append", *words)
    assert findings(host) == []


def test_a_connected_network_shadows_nothing(host):
    """Its hosts are not behind the path."""
    host.ip("addr", "add", "203.0.113.129/28", "dev", "v0")
    assert findings(host) == []


def test_on_a_device_without_gateways_a_network_shadows(host):
    """As on a tunnel: both routes lead into it."""
    host.ip("route", "add", "203.0.114.0/24", "dev", "v0", "congctl", "cubic")
    host.ip("route", "add", "203.0.114.128/25", "dev", "v0")
    finding, = findings(host)
    assert finding["name"] == "route-shadowed" and finding["text"].startswith("203.0.114.128/25 ")


def test_the_next_hop_has_changed(host):
    host.ip("route", "replace", "default", "via", "192.0.2.3")
    check_and_mend(host, "route-stale", "goes via 192.0.2.2 on v0, but without satcc's route it would "
                   "go via 192.0.2.3 on v0")


def test_the_copied_route_is_gone(host):
    host.ip("route", "del", "default")
    check_and_mend(host, "route-stale", "is gone")


def lose_policy(net, prefix):
    """What is left of a route of satcc's when the module of its policy is unloaded."""
    net.ip("route", "replace", prefix, "via", "192.0.2.2", "dev", "v0", "proto", "167")


def test_a_route_whose_module_was_unloaded(host):
    """The saved file names the module to load; without it, the operator knows the policy."""
    lose_policy(host, PREFIX)
    finding, = findings(host)
    assert (finding["name"], finding["mend"]) == ("policy-unloaded", "modprobe tcp_cubic")
    host.satcc("route", "add", "203.0.114.0/24", "cubic", check=True)
    host.satcc("route", "add", PREFIX, "cubic", check=True)
    lose_policy(host, "203.0.114.0/24")
    finding, = findings(host)
    assert finding["mend"] == "satcc route add 203.0.114.0/24 POLICY"
    assert "203.0.114.0/24 has lost its policy" in finding["text"]
    host.satcc("route", "add", "203.0.114.0/24", "cubic", check=True)
    host.satcc("route", "save", check=True)
    assert findings(host) == []


def test_a_route_whose_object_was_unloaded(host):
    plant(host.root, {"usr/lib/satcc/bpf/cubic.bpf.o": "",
                      "etc/systemd/system/sysinit.target.wants/satcc-bpf@cubic.service": ""})
    lose_policy(host, PREFIX)
    finding, = findings(host)
    assert (finding["name"], finding["mend"]) == ("policy-unloaded", "satcc load cubic")


def test_a_route_is_not_saved(host):
    host.satcc("route", "add", "203.0.114.0/24", "cubic", check=True)
    check_and_mend(host, "route-not-saved", "203.0.114.0/24")


def test_a_saved_route_is_not_in_effect(host):
    host.satcc("route", "flush", check=True)
    check_and_mend(host, "route-not-restored", PREFIX)


@pytest.mark.parametrize("metric, names", [("0", ["route-not-restored"]), ("100", [])])
def test_a_daemon_that_replaces_its_route_after_satcc(host, metric, names):
    """IPv4 has no metric before 0, so satcc's route has the same one and is what is replaced."""
    host.ip("route", "del", "default")
    host.ip("route", "add", "default", "via", "192.0.2.2", "metric", metric)
    host.satcc("route", "add", "default", "cubic", check=True)
    host.satcc("route", "save", check=True)
    host.ip("route", "replace", "default", "via", "192.0.2.2", "metric", metric, "proto", "dhcp")
    assert len(host.routes("default", "proto", "167")) == (metric != "0")
    assert [each["name"] for each in findings(host)] == names


def test_a_rule_of_a_port_is_missing(host):
    host.satcc("route", "add", "default", "cubic", "--port", "4433", check=True)
    host.satcc("route", "save", check=True)
    assert findings(host) == []
    host.ip("rule", "del", "sport", "4433", "ipproto", "tcp", "lookup", "16704433")
    check_and_mend(host, "rule-missing", "port 4433")


def test_an_application_that_sets_its_own_policy(host):
    host.satcc("route", "add", PREFIX, "cubic", "--initcwnd", "20", check=True)
    host.satcc("route", "save", check=True)
    with host.connection("203.0.113.1", 5001, policy="reno"):
        finding, = findings(host)
    assert finding["name"] == "application-policy"
    assert finding["text"].startswith(
        "connections to 203.0.113.0/24 use reno (1 now), but their route has cubic: ")
    assert "python3" in finding["text"] or "pytest" in finding["text"]
    assert finding["mend"].startswith("satcc route add 203.0.113.0/24 cubic --lock --initcwnd 20 ")
    assert findings(host) == []


def test_a_connection_that_is_older_than_its_route(host):
    with host.connection("203.0.114.1", 5001):
        host.satcc("route", "add", "203.0.114.0/24", "cubic", check=True)
        host.satcc("route", "save", check=True)
        assert [each["name"] for each in findings(host)] == ["application-policy"]
    assert findings(host) == []


@contextlib.contextmanager
def sending(net, buffer):
    """A connection that has had data to send for more than a second over a slow link, and has still.

    buffer: what its program gives to SO_SNDBUF; 0: it leaves that to the kernel.
    """
    run("ip", "netns", "exec", net.sender, "tc", "qdisc", "replace", "dev", "v0", "root", "tbf",
        "rate", "2mbit", "burst", "20000", "limit", "4000000")
    with net.connection("203.0.113.1", 5001) as (client, accepted):
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        reading = threading.Thread(target=read_all, args=(accepted,))
        reading.start()
        writing = threading.Thread(target=write_all, args=(client,))
        writing.start()
        deadline = time.monotonic() + 60
        while busy_ms(net) < 1.5 * doctor.BUSY:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield client
        client.shutdown(socket.SHUT_RDWR)
        writing.join()
        accepted.close()
        reading.join()


def read_all(accepted):
    with contextlib.suppress(OSError):
        while accepted.recv(65536):
            pass


def write_all(client):
    with contextlib.suppress(OSError):
        while True:
            client.sendall(bytes(65536))


def busy_ms(net):
    """How long the connection to port 5001 has had data to send, as the kernel counts it."""
    text = run("ip", "netns", "exec", net.sender, "ss", "-tinOH", "dport", "=", "5001").stdout
    return max((each.duration_ms("busy") for each in sockets.parse(text)), default=0)


def test_a_program_that_locks_its_send_buffer(host):
    with sending(host, 4000) as client:
        most = client.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        finding, = findings(host)
    assert finding["name"] == "send-buffer-locked"
    assert f"has a send buffer of {most} bytes to 203.0.113.1 and waits for room" in finding["text"]
    assert re.search(r"pytest|python3", finding["text"])
    assert finding["mend"].startswith("ss -tmiOp dst 203.0.113.1   # then remove SO_SNDBUF from ")
    assert findings(host) == []


def test_a_busy_program_that_leaves_its_buffer_to_the_kernel(host):
    with sending(host, 0):
        assert findings(host) == []


LOCKED = ("ESTAB 0 0 192.0.2.1:443 203.0.113.1:50000 ino:1 sk:1 <-> skmem:(r0,rb131072,t0,tb{buffer},f0,"
          "w0,o0,bl0,d0) ts sack {policy} wscale:2,2 rto:204 rtt:100/1 mss:1448 cwnd:50 busy:{busy}ms "
          "sndbuf_limited:{waited}ms(1%)")


@pytest.mark.parametrize("words, most, mend", [
    ({}, 212992, "sysctl -w net.core.wmem_max=4194304   # then restart a program"),
    ({}, 212993, "ss -tmiOp dst 203.0.113.1   # then remove SO_SNDBUF from "),
    ({"buffer": 4194304}, 212992, None), ({"policy": "cubic"}, 212992, None),
    ({"busy": 999}, 212992, None), ({"waited": 99}, 212992, None), ({"waited": 100}, 212992, "sysctl")])
def test_a_locked_buffer_is_detected(quiet_net, files, monkeypatch, words, most, mend):
    """The list of ss is planted."""
    line = LOCKED.format(**{"buffer": 425984, "policy": "satcc", "busy": 1000, "waited": 500, **words})
    monkeypatch.setattr(sockets, "live", lambda host, *options: sockets.parse(line)
                        if "-m" in options else [])
    write(files, {"proc/sys/net/core/wmem_max": most})
    listed = findings_of_files(quiet_net)
    assert [each.name for each in listed] == (["send-buffer-locked"] if mend else [])
    assert not mend or listed[0].mend.startswith(mend)


def send_datagrams(net, count):
    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(count):
                sender.sendto(bytes(1200), ("192.0.2.2", 9))
    in_namespace(f"/run/netns/{net.sender}", send)


def test_the_outgoing_qdisc_drops(host):
    """A bucket filter whose queue holds no packet of this size."""
    run("ip", "netns", "exec", host.sender, "tc", "qdisc", "add", "dev", "v0", "root", "tbf",
        "rate", "1gbit", "burst", "1000", "limit", "1000")
    send_datagrams(host, 999)
    assert findings(host) == []                     # as a burst may do once a day
    send_datagrams(host, 1)
    finding, = findings(host)
    assert finding["name"] == "qdisc-drops"
    assert "the qdisc tbf of v0 has dropped 1000 of" in finding["text"]
    assert finding["mend"].startswith("tc -s qdisc show dev v0")


def qdisc(kind, drops, packets=100000, **words):
    return {"kind": kind, "dev": "v0", "drops": drops, "packets": packets, **words}


@pytest.mark.parametrize("listed, drops", [
    ([qdisc("fq_codel", 5000, root=True)], None), ([qdisc("cake", 5000, root=True)], None),
    ([qdisc("mq", 5000, root=True), qdisc("fq_codel", 2500, parent=":1"),
      qdisc("fq_codel", 2500, parent=":2")], None),
    ([qdisc("htb", 5000, root=True), qdisc("fq_codel", 3000, parent="1:1"),
      qdisc("pfifo", 2000, parent="1:2")], 2000),
    ([qdisc("pfifo_fast", 5000, 10**8, root=True)], None),
    ([qdisc("pfifo_fast", 5000, root=True)], 5000), ([qdisc("noqueue", 0, root=True)], None)])
def test_drops_that_are_an_aqms_work_are_not_counted(quiet_net, files, monkeypatch, listed, drops):
    """The list of tc is planted; the routes are the kernel's."""
    real = Host.run_json
    monkeypatch.setattr(Host, "run_json", lambda host, command: listed if command[0] == "tc"
                        else real(host, command))
    findings = findings_of_files(quiet_net)
    assert [each.name for each in findings] == (["qdisc-drops"] if drops else [])
    assert not drops or f"dropped {drops} of" in findings[0].text


@pytest.mark.parametrize("kind, command", [
    ("fq", "tc qdisc replace dev eth0 root fq flow_limit 2000"),
    ("pfifo_fast", "tc qdisc replace dev eth0 root fq"), ("pfifo", "tc qdisc replace dev eth0 root fq"),
    *[(kind, "tc -s qdisc show dev eth0   # then raise its limit") for kind in (
        # the operator configured them, and their classes
        "prio", "mqprio", "ets", "drr", "qfq", "taprio", "mq", "htb", "hfsc", "tbf", "netem", "new")]])
def test_the_command_for_a_qdisc(kind, command):
    assert doctor.qdisc_command({"kind": kind, "dev": "eth0"}) == command


@pytest.fixture
def other(host):
    """Another namespace, which `ip netns` of the stand-in for / knows."""
    folder = host.root / "run/netns"
    folder.mkdir(parents=True)
    (folder / host.receiver).symlink_to(f"/run/netns/{host.receiver}")
    run("rm", "-r", host.root / "proc")
    (host.root / "proc").symlink_to("/proc")        # sysctls are the namespaces'
    write(host.root, {"etc/sysctl.d/90-satcc.conf": "net.ipv4.tcp_congestion_control = reno"})
    return host.receiver


def names_of(net, name):
    return [each for each in findings(net) if each["name"] == name]


@pytest.fixture
def different(host):
    """A policy besides reno that every namespace may have as its default."""
    allowed = set(host.sysctl("net.ipv4.tcp_allowed_congestion_control")) - {"reno"}
    if not allowed:
        if os.environ.get("EXPECT_ALL") == "1":
            pytest.fail("this kernel allows ordinary users reno alone")
        pytest.skip("this kernel allows ordinary users reno alone")
    return min(allowed)


def test_a_namespace_with_another_default(host, other, different):
    assert names_of(host, "namespace-differs") == []
    host.set_sysctl("net.ipv4.tcp_congestion_control", different, other)
    finding, = names_of(host, "namespace-differs")
    assert f"the namespace {other} has the default policy {different}" in finding["text"]
    mend(host, finding)
    assert names_of(host, "namespace-differs") == []


@pytest.mark.parametrize("file, differs", [
    ("net.ipv4.tcp_congestion_control = reno", True), ("", False)])
def test_a_namespace_may_differ_without_a_file(quiet_net, files, monkeypatch, file, differs):
    """Without a file the default is the kernel's, and not the operator's choice.  Both are planted."""
    here = identity(f"/run/netns/{quiet_net.sender}")
    monkeypatch.setattr(policies, "default", lambda host: "reno" if identity(
        "/proc/thread-self/ns/net") == here else "cubic")
    (files / "run/netns").mkdir(parents=True)
    (files / "run/netns/sat").symlink_to(f"/run/netns/{quiet_net.receiver}")
    write(files, {"etc/sysctl.d/90-satcc.conf": file})
    assert [each.name for each in findings_of_files(quiet_net)] == ["namespace-differs"] * differs


def test_a_namespace_by_name_is_not_compared_with_the_hosts_files(host):
    """Nor with other namespaces; its commands name it."""
    namespaces = host.root / "run/netns"
    namespaces.mkdir(parents=True)
    (namespaces / host.sender).symlink_to(f"/run/netns/{host.sender}")
    write(host.root, {"etc/sysctl.d/99.conf": "net.ipv4.tcp_congestion_control=satcc",
                      sysctl("tcp_sack"): 0})
    assert {each["name"] for each in findings(host)} == {"default-not-in-force", "sack-off"}
    host.satcc("route", "save", "--netns", host.sender, check=True)
    done = host.satcc("doctor", "--json", "--netns", host.sender)
    finding, = json.loads(done.stdout)
    assert (finding["name"], finding["mend"]) == (
        "sack-off", f"ip netns exec {host.sender} sysctl -w net.ipv4.tcp_sack=1")


def test_a_namespace_by_name_is_compared_with_its_own_saved_routes(host):
    """The host's file says nothing about it."""
    def names():
        listed = json.loads(host.satcc("doctor", "--json", "--netns", host.sender).stdout)
        return [(each["name"], each["mend"]) for each in listed]
    assert names() == [("route-not-saved", f"satcc route save --netns {host.sender}")]
    host.satcc("route", "save", "--netns", host.sender, check=True)
    assert names() == []
    host.satcc("route", "flush", check=True)
    assert names() == [("route-not-restored", f"satcc route restore --netns {host.sender}")]


def test_a_check_that_cannot_be_made_is_a_finding(host, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tc").write_text("#!/bin/sh\necho 'no permission' >&2\nexit 1\n")
    (folder / "tc").chmod(0o755)
    done = host.satcc("doctor", path=folder)
    assert done.returncode == 1
    assert done.stdout.partition(":")[::2] == (
        "not-checked", " cannot check qdisc drops: tc -s -j qdisc show: no permission: "
        "sudo satcc doctor\n")


def test_usage(net):
    assert net.satcc("doctor", "--nosuch").returncode == 2


@pytest.mark.parametrize("smaller, larger", [
    ("6.1.9", "6.1.10"), ("6.1.0-9-amd64", "6.1.0-10-amd64"), ("6.12-rc1", "6.12"), ("5.10", "6.1"),
    ("6.1.0-56-amd64", "6.12.1-1-amd64")])
def test_the_newest_kernel(smaller, larger):
    assert policies.version_key(smaller) < policies.version_key(larger)


@pytest.mark.parametrize("one, other, same", [("Y", "1", True), ("0x10", "16", True), ("N", "1", False),
                                              ("1,2", "1,2", True), ("cwnd", "rate", False)])
def test_values_of_parameters(one, other, same):
    assert policies.same_value(one, other) is same


def test_each_finding_is_planted():
    """The names in the program are those in this file."""
    program = (TOP / "tools/satcc_operate/doctor.py").read_text()
    names = {*re.findall(r'Finding\("([a-z-]+)"', program),
             *(finding for finding, _ in doctor.NEEDED.values())}
    text = pathlib.Path(__file__).read_text()
    assert len(names) >= 15
    assert not [name for name in names if f'"{name}"' not in text]
