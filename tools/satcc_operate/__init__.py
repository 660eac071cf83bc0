# SPDX-License-Identifier: GPL-2.0
"""satcc(8): see, select and check the policies of this host.

host.py runs commands and reads /proc, /sys and /etc.  policies.py handles modules, fib.py routes and
rules, sockets.py the output of ss, and probe.py iperf3.  status.py, route.py, doctor.py, tune.py,
metrics.py and choose.py are the sub-commands.  cli.py parses the arguments.
"""
