#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# `make package-check`: install, upgrade, remove and purge the packages in a minimal Debian root.
#
# The root is made below build/package-check by mmdebstrap from this machine's own sources of Debian, with
# what the packages depend on and recommend, headers of the release's kernel included.  Nothing is
# installed on the host and no module is loaded.  Needs root, and a network the first time.
# shellcheck disable=SC2016 # dollars for other shells, apt and dpkg
set -eu

usage="usage: package_check.sh [RELEASE...]   (bookworm by default; trixie)"
case "${1:-}" in
-h | --help) echo "$usage"; exit 0 ;;
-*) echo "$usage" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "package-check: type this as root" >&2; exit 1; }
cd "$(dirname "$0")/.."
top=$PWD
debs=$top/build/deb
work=$top/build/package-check
mkdir -p "$work"
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

fail() {
	echo "package-check: $*" >&2
	exit 1
}

# sources RELEASE: lines for sources.list, of the suites that this machine has of its own release.
sources() {
	# shellcheck source=/dev/null
	host=$(. /etc/os-release && echo "$VERSION_CODENAME")
	apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		sed -n 's/^Debian //p' | sort -u | sed "s/ $host/ $1/"
}

# inside COMMAND...: in the root, with process and mount namespaces of its own, so that nothing stays behind.
inside() {
	unshare --mount --pid --ipc --uts --fork --kill-child -- sh -eu -c '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		exec chroot "$root" "$@"' sh "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# quietly NAME COMMAND...: its output only if it fails.
quietly() {
	name=$1
	shift
	inside "$@" >"$work/$release-$name.log" 2>&1 || {
		tail -n 20 "$work/$release-$name.log" >&2
		fail "$release: $name failed, see $work/$release-$name.log"
	}
}

# files: every file of the root but logs, caches, what apt and dpkg keep, and the key that DKMS makes once for
# all modules; of /etc with contents.
files() {
	(cd "$root" && find . \( -path ./proc -o -path ./dev -o -path ./sys -o -path ./tmp -o -path ./var/log \
		-o -path ./var/cache -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./debs \
		-o -path './var/lib/dkms/mok.*' \) -prune \
		-o -printf '%p %y %m %u %g %l\n' | sort
	find etc -type f -exec sha256sum {} + | sort)
}

same() {
	diff "$work/$release-$1" "$work/$release-$2" >"$work/$release-$1-$2.diff" || {
		cat "$work/$release-$1-$2.diff" >&2
		fail "$release: $3"
	}
}

# The root with all that the packages need but themselves; a new one when what they need has changed.
prepare() {
	made_of=$(dpkg-deb -f "$debs"/satcc-dkms_*.deb Depends; dpkg-deb -f "$debs"/satcc-tools_*.deb Depends)
	archive=$work/$release.tar
	if [ -e "$archive" ] && [ "$(cat "$archive.of")" = "$made_of" ]; then
		return
	fi
	echo "$release: making a minimal root"
	sources "$release" >"$work/$release.list"
	grep -q . "$work/$release.list" || fail "no package lists of Debian: type apt-get update"
	rm -rf "$root"
	unshare --mount -- mmdebstrap --quiet --variant=minbase --include=man-db \
		"$release" "$root" - <"$work/$release.list" >"$work/$release-mmdebstrap.log" 2>&1 ||
		{ tail -n 5 "$work/$release-mmdebstrap.log" >&2; fail "mmdebstrap failed"; }
	mkdir "$root/debs"
	cp "$debs"/*.deb "$root/debs"
	# What apt would install with them.
	quietly update apt-get update
	quietly simulate sh -c 'apt-get -s install /debs/*.deb'
	needed=$(sed -n 's/^Inst \([^ ]*\) .*/\1/p' "$work/$release-simulate.log" | grep -v '^satcc-')
	# shellcheck disable=SC2086 # a list of words
	quietly needed apt-get install -y --no-install-recommends $needed
	# The kernel's own package, which is not here, would have done this.
	quietly depmod sh -c 'for kernel in /lib/modules/*; do depmod "${kernel##*/}"; done'
	tar -C "$root" -cf "$archive" .
	echo "$made_of" >"$archive.of"
}

check() {
	release=$1
	root=$work/$release
	prepare
	rm -rf "$root"
	mkdir "$root"
	tar -C "$root" -xf "$archive"
	rm -f "$root"/debs/*
	cp "$debs"/*.deb "$root/debs"
	kernel=$(basename "$(ls -d "$root"/lib/modules/*)")
	files >"$work/$release-before"
	inside dpkg-query -W -f '${Package}\n' >"$work/$release-packages"

	echo "$release: install"
	quietly install sh -c 'apt-get install -y /debs/*.deb'
	added=$(inside dpkg-query -W -f '${Package}\n' | grep -vxF -f "$work/$release-packages" | xargs)
	[ "$added" = "satcc-dkms satcc-tools" ] || fail "$release: apt installed $added"
	for module in tcp_satcc tcp_hybla_full tcp_westwood_abse tcp_mtsi tcp_ibk tcp_constant_rate satcc_log; do
		inside modinfo -k "$kernel" -n "$module" >/dev/null || fail "$release: no $module for $kernel"
		# Routes and sysctls name the policy.
		inside modprobe -S "$kernel" -n "${module#tcp_}" || fail "$release: modprobe ${module#tcp_} fails"
	done
	files >"$work/$release-installed"

	echo "$release: use"
	quietly help satcc --help
	inside satcc doctor --json >"$work/$release-doctor.json" || [ $? = 1 ] || fail "$release: satcc doctor fails"
	python3 -m json.tool "$work/$release-doctor.json" >/dev/null || fail "$release: satcc doctor prints no JSON"
	for page in 8:satcc 7:satcc 7:tcp_satcc 7:tcp_hybla_full 1:satcc-log 8:satcc-cwnd.bt; do
		inside man "${page%:*}" "${page#*:}" >"$work/$release-page" 2>"$work/$release-page.err" ||
			fail "$release: no manual $page"
		grep -q . "$work/$release-page" || fail "$release: manual $page is empty"
		! grep . "$work/$release-page.err" || fail "$release: manual $page has warnings"
	done
	quietly log satcc-log columns
	[ -L "$root/etc/systemd/system/multi-user.target.wants/satcc-routes.service" ] ||
		fail "$release: satcc-routes.service is not enabled"
	files >"$work/$release-used"
	same installed used "use leaves files"

	echo "$release: upgrade over itself"
	quietly upgrade sh -c 'apt-get install -y --reinstall /debs/*.deb'
	files >"$work/$release-upgraded"
	same installed upgraded "an upgrade changes files"

	echo "$release: remove and purge"
	mkdir -p "$root/etc/satcc"
	echo '[]' >"$root/etc/satcc/routes.json"
	quietly remove apt-get remove -y satcc-dkms satcc-tools
	[ -e "$root/etc/satcc/routes.json" ] || fail "$release: remove lost the routes"
	! find "$root/lib/modules" "$root/usr/share/satcc" "$root/var/lib/dkms/satcc" -name '*satcc*' 2>/dev/null |
		grep . || fail "$release: remove left these"
	quietly purge apt-get purge -y satcc-dkms satcc-tools
	files >"$work/$release-after"
	same before after "purge leaves or changes files"
	rm -rf "$root"
	echo "$release: pass, modules for $kernel"
}

# The same files in another folder and with another umask give the same packages.
echo "build a second time"
(umask 077 && tools/deb "$work/again" >"$work/again.log" 2>&1) || fail "the second build fails, see $work/again.log"
for deb in "$debs"/*.deb; do
	cmp "$deb" "$work/again/${deb##*/}" || fail "${deb##*/} is not reproducible"
done
rm -rf "$work/again"

for release in "${@:-bookworm}"; do
	check "$release"
done
