# SPDX-License-Identifier: GPL-2.0
"""satcc(8): see, select and check the policies of this host.

host.py runs commands and reads /proc, /sys and /etc; policies.py knows modules, fib.py routes and
rules, sockets.py what ss prints, probe.py what iperf3 does.  Each of status.py, route.py, doctor.py,
tune.py, metrics.py and choose.py is a sub-command.  cli.py has the arguments.
"""
