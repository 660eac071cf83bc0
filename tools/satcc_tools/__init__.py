# SPDX-License-Identifier: GPL-2.0
"""The modules of satcc-log and satcc-plot.

Recording and decoding use the standard library alone, for hosts that have no more; graphs.py
needs matplotlib and numpy.
"""
