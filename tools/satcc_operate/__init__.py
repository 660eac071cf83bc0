# SPDX-License-Identifier: GPL-2.0
"""satcc(8): see, select and check the policies of this host.

host.py runs commands and reads /proc, /sys and /etc; policies.py knows modules, fib.py routes and
rules, sockets.py what ss prints.  Each of status.py, route.py, doctor.py, tune.py and metrics.py is
a sub-command.  cli.py has the arguments.
"""
