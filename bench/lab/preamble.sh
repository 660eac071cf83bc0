# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2086      # names and numbers, which have no blanks
# Every generated script begins with these functions.  job.py replaces PREFIX.
# Generated from a scenario.  $OUT: where results go.
in_ns() { ns=$1; shift; nsenter --net=/run/netns/PREFIX$ns -- "$@"; }
as_ns() { ns=$1; shift; exec nsenter --net=/run/netns/PREFIX$ns -- "$@"; }  # in a subshell
refuse() { echo "satcc: failed: set-up is not what was asked: $*"; exit 3; }
load() {  # a congestion control's name; the shell reads the file: to start a program costs more than that
    read -r available < /proc/sys/net/ipv4/tcp_available_congestion_control
    case " $available " in *" $1 "*) return;; esac
    modprobe "tcp_$1" || refuse "no congestion control $1"
}
parameter() {  # module, name, value: is it in effect?
    read -r got < "/sys/module/$1/parameters/$2"
    case "$got" in "$3") ;; Y) [ "$3" = 1 ];; N) [ "$3" = 0 ];; *) refuse "$1 $2 is $got";; esac
}
# Called before a `&&`, where -e does not hold: each step says what its failure means.
requests() {  # server's namespace, client's, server's address, port, congestion control; sizes on stdin
    from=20000
    while read -r size; do
        ( as_ns "$1" flow serve $4 "$5" bytes $size ) &
        sleep 0.01
        in_ns "$2" flow fetch "$3" $4 $from || return 1
        wait $! || return 1
        from=$((from + 1))
    done
}
page() {  # as requests; one browser fetches all, one after the other
    mkdir -p www || return 1
    echo "server { listen $4; }" > listen.conf
    in_ns "$1" sh -c "echo $5 > /proc/sys/net/ipv4/tcp_congestion_control" || return 1
    modprobe tcp_diag || return 1
    ( as_ns "$1" nginx -c "$PWD/nginx.conf" ) &
    server=$!
    urls=
    object=0
    while read -r size; do
        truncate -s $size www/$object || return 1
        urls="$urls http://$3:$4/$object"
        object=$((object + 1))
    done
    sleep 0.1
    ( as_ns "$2" wget -q -O /dev/null $urls ) || return 1
    # The client's FIN is on its way: until it has come the server has its connection.
    in_ns "$1" ss -HtinO "sport = :$4" > connection-$4 || return 1
    sed -n 's/.* \([a-z0-9_]*\)\( wscale:[0-9,]*\)\? rto:.*/{"cc":"\1"}/p' connection-$4
    kill $server && wait $server
}
agreed() {  # file of senders' reports, how many there should be: the flow's result, with their "cc"
    names=$(sed -n 's/.*"cc":"\([^"]*\)".*/\1/p' "$1")
    [ "$(echo "$names" | grep -c .)" -eq "$2" ] || return 1
    echo "{\"cc\":\"$(echo "$names" | sort -u | xargs)\"}"
}
