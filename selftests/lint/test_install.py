# SPDX-License-Identifier: GPL-2.0
"""make install, dkms-install and uninstall, into folders of the test's own."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from bench.lab import packages
from bench.paths import TOP, policies
from selftests.conftest import long
from selftests.lint.test_style import KERNEL, tracked

SOURCES = sorted(path for path in TOP.glob("*/tcp_*.c") if not path.name.endswith(".mod.c"))
LOGGER = "satcc_log"        # of more than one source
MODULES = {f"{path.stem}.ko" for path in SOURCES} | {f"{LOGGER}.ko"}


def copied(folder):
    """The folder, with the project's own files alone."""
    for path in tracked():
        copy = folder / path.relative_to(TOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return folder


@pytest.fixture
def clone(tmp_path):
    return copied(tmp_path / "clone")


@pytest.fixture(scope="module")
def built_clone(tmp_path_factory):
    """A clone for tests that install: the first builds the modules."""
    return copied(tmp_path_factory.mktemp("built") / "clone")


@pytest.fixture
def release():
    return packages.kernel_release(KERNEL)


def make(clone, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(["make", *map(str, arguments)], cwd=clone, text=True, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def installed(folder):
    return {path.name for path in folder.rglob("*.ko")}


def listed(conf, kernel_source_dir):
    """What dkms.conf has DKMS look for: module -> folder."""
    output = subprocess.run(
        ["bash", "-euc", f'. {conf}; for number in "${{!BUILT_MODULE_NAME[@]}}"; do '
         'echo "${BUILT_MODULE_NAME[number]} ${BUILT_MODULE_LOCATION[number]}"; done'],
        env={**os.environ, "kernel_source_dir": str(kernel_source_dir), "kernelver": "1.2.3-nosuch"},
        text=True, capture_output=True, check=True).stdout
    return dict(line.split() for line in output.splitlines())


def test_dkms_conf_lists_every_module(release, tmp_path):
    """Whether or not the kernel's configuration is found."""
    for folder in (packages.headers(release), tmp_path):
        assert listed(TOP / "dkms.conf", folder) == {
            **{path.stem: path.parent.name for path in SOURCES}, LOGGER: "modules"}
    version = re.search(r'^PACKAGE_VERSION="(.+)"', (TOP / "dkms.conf").read_text(), re.M)[1]
    for path in [*SOURCES, TOP / "modules/satcc_log_main.c"]:
        assert f'MODULE_VERSION("{version}")' in path.read_text()


def without_noise(output):
    """No word of a key that is not there, or of an index that kbuild cannot make."""
    return not re.search(r"SSL|sign-file|System.map|depmod", output)


def test_install_and_uninstall(built_clone, release, tmp_path):
    root = tmp_path / "root"
    where = [f"KDIR={packages.headers(release)}", f"DESTDIR={root}"]
    # Not ours, and to stay.
    kept = [root / name for name in ("usr/local/sbin/other", "usr/local/share/man/man8/other.8",
                                     f"lib/modules/{release}/updates/other.ko")]
    for path in kept:
        path.parent.mkdir(parents=True)
        path.touch()
    done = make(built_clone, "install", *where)
    assert done.returncode == 0 and without_noise(done.stdout), done.stdout
    kernel = root / "lib/modules" / release
    assert done.stdout.splitlines()[-1] == (
        f"installed for {release} only: {kernel}/updates/satcc; tools: {root}/usr/local; "
        "next: satcc route add PREFIX satcc, or man satcc")
    assert installed(kernel / "updates/satcc") == MODULES
    assert all(name in (kernel / "modules.dep").read_text() for name in MODULES)
    for policy in policies():
        # Without -d, modprobe reads the aliases in this machine's own folders alone.
        done = subprocess.run(["modprobe", "-d", root, "-S", release, "-n", "-v",
                               "-C", root / "usr/local/lib/modprobe.d", policy],
                              env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
                              text=True, capture_output=True)
        assert f"/tcp_{policy}.ko" in done.stdout, done.stderr
    done = make(built_clone, "uninstall", *where, f"LOADED={tmp_path / 'modules'}")
    assert done.returncode == 0, done.stdout
    left = {path for path in root.rglob("*")
            if not path.is_dir() and not path.name.startswith("modules.")}
    assert left == set(kept) and not (kernel / "updates/satcc").exists()
    assert "tcp_" not in (kernel / "modules.dep").read_text()


def test_uninstall_names_modules_that_are_loaded(clone, tmp_path):
    (tmp_path / "modules").write_text("tcp_satcc 36864 1 - Live 0x0\ntcp_satccx 1 0 - Live 0x0\n")
    done = make(clone, "uninstall", f"DESTDIR={tmp_path / 'root'}", f"LOADED={tmp_path / 'modules'}")
    assert done.returncode == 0
    assert done.stdout == "still loaded: tcp_satcc; when nothing uses it, run: rmmod tcp_satcc\n"


def test_installed_programs_run(clone, tmp_path):
    """From where they are installed, without the clone; and installed a second time over the first."""
    root = tmp_path / "root"
    for _ in range(2):
        done = make(clone, "install-tools", f"DESTDIR={root}", "PREFIX=/opt/satellite")
        assert done.returncode == 0 and done.stdout == "", done.stdout
    shutil.rmtree(clone)
    prefix = root / "opt/satellite"
    for name in ("sbin/satcc", "bin/satcc-log"):
        done = subprocess.run([prefix / name, "--help"], env={}, cwd="/", text=True,
                              capture_output=True)
        assert done.stdout.startswith(f"usage: {Path(name).name} "), done.stderr
    words = ("choose", "--rate", "10mbit", "--rtt", "600ms")
    done = subprocess.run([prefix / "sbin/satcc", *words], env={},
                          cwd="/", text=True, capture_output=True)
    assert done.returncode == 0 and done.stdout.startswith("policy: "), done.stderr     # has figures
    for file in TOP.glob("tools/*.json"):
        assert (prefix / "share/satcc" / file.name).read_text() == file.read_text()
    unit = (prefix / "lib/systemd/system/satcc-routes.service").read_text()
    assert set(re.findall(r"^Exec.*=(\S+)", unit, re.M)) == {"/opt/satellite/sbin/satcc"}


def test_install_bpf_and_uninstall(clone, release, tmp_path):
    """What the unit names is installed, and runs; uninstall removes it."""
    root, types = tmp_path / "root", tmp_path / "vmlinux"
    types.write_bytes(packages.vmlinux(release))
    where = [f"DESTDIR={root}", "PREFIX=/opt/satellite"]
    done = make(clone, "-j2", "install-bpf", f"BTF={types}", *where)
    assert done.returncode == 0, done.stdout
    prefix = root / "opt/satellite"
    assert done.stdout.splitlines()[-1] == (
        f"installed: objects in {prefix}/lib/satcc/bpf; next: systemctl enable --now satcc-bpf@satcc, "
        "or man satcc-bpf")
    unit = (prefix / "lib/systemd/system/satcc-bpf@.service").read_text()
    program, object_file = re.search(r"^ExecStart=(\S+) load (\S+) \$PARAMETERS$", unit, re.M).groups()
    assert {str(root) + object_file.replace("%i", policy) for policy in policies()} == {
        str(path) for path in prefix.rglob("*.bpf.o")}
    done = subprocess.run([f"{root}{program}", "--help"], text=True, capture_output=True, check=True)
    assert done.stdout.startswith("usage: satcc-bpf ")
    assert (prefix / "share/man/man8/satcc-bpf.8").exists()
    make(clone, "uninstall", *where, "LOADED=/dev/null")
    assert [path for path in root.rglob("*") if not path.is_dir()] == []


@pytest.mark.parametrize("script", sorted(TOP.glob("tools/*.bt")), ids=lambda path: path.stem)
def test_a_bpftrace_script_says_what_it_needs(clone, tmp_path, script):
    """Of the package and of the module, before bpftrace says that it finds no tracepoint."""
    make(clone, "install-tools", f"DESTDIR={tmp_path}")
    link, programs = tmp_path / "usr/local/sbin" / f"satcc-{script.name}", tmp_path / "bin"

    def call(*arguments):
        done = subprocess.run([link, *arguments], text=True, capture_output=True,
                              env={"PATH": f"{programs}:/bin", "SATCC_ROOT": str(tmp_path)})
        return done.returncode, done.stdout, done.stderr
    if not shutil.which("bpftrace"):
        assert call() == (1, "", f"{link.name}: no bpftrace; type: apt install bpftrace\n")
    programs.mkdir()
    (programs / "bpftrace").write_text('#!/bin/sh\necho "$2"; cat "$1"\n')
    (programs / "bpftrace").chmod(0o755)
    if script.stem != "cwnd_probe":
        assert call() == (1, "", f"{link.name}: the module satcc_log is not loaded; "
                                 "type: modprobe satcc_log\n")
        assert "type `modprobe satcc_log` first" in " ".join(script.read_text().split())
    (tmp_path / "sys/module/satcc_log").mkdir(parents=True)
    assert call("443") == (0, f"443\n{script.read_text()}", "")


def test_plot_names_the_package_that_it_lacks(clone, tmp_path):
    make(clone, "install-tools", f"DESTDIR={tmp_path / 'root'}")
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError(name='matplotlib')")
    done = subprocess.run([tmp_path / "root/usr/local/bin/satcc-plot", "--help"],
                          env={"PYTHONPATH": str(tmp_path)}, text=True, capture_output=True)
    assert done.returncode == 1
    assert done.stderr == "satcc-plot: no matplotlib: install python3-matplotlib\n"


@pytest.mark.parametrize("target", ["install", "dkms-install", "uninstall"])
def test_an_ordinary_user_is_refused_at_once(clone, target):
    """Before anything is built."""
    with tempfile.TemporaryDirectory() as folder:       # the test's own is root's alone
        shutil.copytree(clone, folder, dirs_exist_ok=True)
        os.chmod(folder, 0o755)
        user = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        done = subprocess.run([*user, "make", target, "KDIR=/nowhere"], cwd=folder, text=True,
                              env={"PATH": os.environ["PATH"]}, capture_output=True)
    assert done.returncode and done.stdout == ""
    assert done.stderr.splitlines()[0] == "run this as root, or set DESTDIR to a folder of your own"


def test_examples_are_comments(clone, tmp_path):
    """Copied as they are, they change nothing; what they say names modules and parameters that exist."""
    make(clone, "install-tools", f"DESTDIR={tmp_path}")
    files = [path for path in tmp_path.glob("usr/local/share/doc/satcc/examples/*.d/*.conf")]
    assert len(files) == 3
    text = "\n".join(path.read_text() for path in files)
    assert all(line.startswith("#") or not line for line in text.splitlines())
    assert {*re.findall(r"^#(?:options )?(tcp_\w+)", text, re.M)} <= {path.stem for path in SOURCES}
    for module, words in re.findall(r"^#options (\w+) (.*)$", text, re.M):
        source, = (path for path in SOURCES if path.stem == module)
        for word in words.split():
            assert f"SATCC_PARAM({word.partition('=')[0]}," in source.read_text()


def test_kernelrelease_names_the_kernel(built_clone, release, tmp_path):
    done = make(built_clone, "install", f"KDIR={packages.headers(release)}", f"KERNELRELEASE={release}",
                f"DESTDIR={tmp_path / 'root'}")
    assert done.returncode == 0, done.stdout
    assert installed(tmp_path / "root/lib/modules" / release) == MODULES


@pytest.mark.parametrize("target", ["modules", "install", "dkms-install"])
def test_missing_headers_are_one_line(clone, target):
    done = make(clone, target, "KERNELRELEASE=1.2.3-nosuch")
    assert done.returncode
    output = [line for line in done.stdout.splitlines() if not line.startswith("make")]
    assert output == ["no kernel headers in /lib/modules/1.2.3-nosuch/build: install "
                      "linux-headers-1.2.3-nosuch or set KDIR"]


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2])
def test_dkms_builds_installs_and_removes_all(clone, release, tmp_path, times):
    """dkms itself, on trees of its own; a second time over the first."""
    tree, source, target = (tmp_path / name for name in ("tree", "src", "modules"))
    for folder in (tree, source, target / release):
        folder.mkdir(parents=True)
    dkms = f"dkms --no-depmod --dkmstree {tree} --sourcetree {source} --installtree {target}"
    where = [f"KDIR={packages.headers(release)}", f"KERNELRELEASE={release}", f"DKMS={dkms}", "ROOT=:",
             f"SOURCES={source / 'satcc-0.1'}", f"INSTALLED={tmp_path / 'none'}",
             f"TOOLS={tmp_path / 'none'}"]
    for _ in range(times):
        done = make(clone, "dkms-install", *where)
        assert done.returncode == 0, done.stdout
        assert installed(target) == MODULES, done.stdout
    done = make(clone, "uninstall", *where)
    assert done.returncode == 0, done.stdout
    assert not installed(target) and not (source / "satcc-0.1").exists()
    assert not installed(tree)


@pytest.mark.long
def test_dkms_builds_for_each_kernel_with_headers(clone, tmp_path):
    """And says which, and which have no headers."""
    for name in ("6.1.0-1-amd64", "6.12.0-1-amd64"):
        folder = tmp_path / "lib" / name / "build"
        folder.mkdir(parents=True)
        (folder / "Makefile").touch()
    (tmp_path / "lib/6.1.0-2-amd64").mkdir()
    done = make(clone, "dkms-install", f"LIB={tmp_path / 'lib'}", "DKMS=echo dkms", "ROOT=:",
                f"SOURCES={tmp_path / 'src'}")
    assert done.returncode == 0, done.stdout
    assert [line for line in done.stdout.splitlines() if not line.startswith("make")] == [
        *(f"dkms install satcc/0.1 -k {name} --force --kernelsourcedir {tmp_path}/lib/{name}/build"
          for name in ("6.1.0-1-amd64", "6.12.0-1-amd64")),
        "installed: modules for 6.1.0-1-amd64 6.12.0-1-amd64; DKMS builds them for each new kernel",
        "no headers, so no modules yet: 6.1.0-2-amd64; install linux-headers-RELEASE and DKMS "
        "builds them"]


def without(option, release, folder):
    """A kernel's headers as if it had been built without an option."""
    kdir = folder / "kdir"
    shutil.copytree(packages.headers(release), kdir, symlinks=True)
    for name in ("scripts", "tools"):
        link = kdir / name
        target = link.resolve() if link.exists() else (packages.headers(release) / name).resolve()
        link.unlink()
        link.symlink_to(target)
    for name in (".config", "include/config/auto.conf"):
        path = kdir / name
        text = path.read_text()
        assert f"\n{option}=y\n" in text
        path.write_text(text.replace(f"\n{option}=y\n", "\n"))
    return kdir


# With the first option dkms itself installs what was built, below.
@pytest.mark.parametrize("option", map(long, [
    "CONFIG_DYNAMIC_FTRACE_WITH_REGS", "CONFIG_KRETPROBES", "CONFIG_EVENT_TRACING"]))
def test_dkms_conf_and_kbuild_leave_the_logger_out_alike(clone, release, option, tmp_path):
    """Where the kernel has no such hooks, as on arm64 from 6.2."""
    kdir = without(option, release, tmp_path)
    assert LOGGER not in listed(clone / "dkms.conf", kdir)
    done = make(clone, "modules", f"KDIR={kdir}")
    assert done.returncode == 0, done.stdout
    assert installed(clone) == {f"{name}.ko" for name in listed(clone / "dkms.conf", kdir)}
    assert installed(clone) == MODULES - {f"{LOGGER}.ko"}


@pytest.mark.long
def test_dkms_does_without_the_logger(clone, release, tmp_path):
    """dkms itself installs the policies where the logger is not built."""
    kdir = without("CONFIG_DYNAMIC_FTRACE_WITH_REGS", release, tmp_path)
    tree, source, target = (tmp_path / name for name in ("tree", "src", "modules"))
    for folder in (tree, source, target / release):
        folder.mkdir(parents=True)
    dkms = f"dkms --no-depmod --dkmstree {tree} --sourcetree {source} --installtree {target}"
    done = make(clone, "dkms-install", f"KDIR={kdir}", f"KERNELRELEASE={release}", f"DKMS={dkms}",
                "ROOT=:", f"SOURCES={source / 'satcc-0.1'}")
    assert done.returncode == 0, done.stdout
    assert installed(target) == MODULES - {f"{LOGGER}.ko"}, done.stdout


@pytest.mark.long
def test_dkms_sources_for_a_package(clone, release, tmp_path):
    """With DESTDIR the sources are laid out, complete, and dkms is not called."""
    done = make(clone, "dkms-install", f"DESTDIR={tmp_path / 'root'}", "DKMS=false")
    assert done.returncode == 0, done.stdout
    folder, = (tmp_path / "root/usr/src").iterdir()
    done = make(folder, "modules", f"KDIR={packages.headers(release)}")
    assert done.returncode == 0 and installed(folder) == MODULES, done.stdout
