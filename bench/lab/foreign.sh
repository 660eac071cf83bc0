# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# foreign.py puts these functions before a run's script.  They load congestion controls of a user's.
available=/proc/sys/net/ipv4/tcp_available_congestion_control
cannot_load() { echo "satcc: failed: $*"; exit 3; }
registered() {  # module or object, name, names before it was loaded
    grep -qw "$2" $available && return
    names=$(cat $available)
    new=
    for name in $names; do
        case " $3 " in *" $name "*) ;; *) new="$new $name";; esac
    done
    cannot_load "the $1 for $2 registers no congestion control $2${new:+, but$new}"
}
load_module() {  # file, name
    before=$(cat $available)
    said=$(insmod "./$1" 2>&1) ||
        cannot_load "the kernel refuses the module for $2: ${said##*: } ($(dmesg | tail -n 1 | sed 's/^\[[^]]*\] //'))"
    registered module "$2" "$before"
}
load_object() {  # file, name
    before=$(cat $available)
    ./satcc-bpf --verbose --map "$2" load "$1" > said 2>&1 || {
        cat said
        # The verifier's last words, before its statistics, say why.
        why=$(sed -n '/BEGIN PROG LOAD LOG/,/END PROG LOAD LOG/p' said | grep -v -e '^processed ' -e '^max_states' \
            -e ' PROG LOAD LOG --' | tail -n 1)
        [ -z "$why" ] || cannot_load "the verifier refuses the object for $2: $why"
        why=$(tail -n 1 said | sed -e 's/; --verbose shows why//' -e 's/^satcc-bpf: //')
        cannot_load "the object for $2 cannot be loaded: $why"
    }
    registered object "$2" "$before"
}
