# SPDX-License-Identifier: GPL-2.0
"""What satcc-log and satcc-plot are made of.

Recording and decoding use the standard library alone, for hosts that have no more; graphs.py
needs matplotlib and numpy.
"""
