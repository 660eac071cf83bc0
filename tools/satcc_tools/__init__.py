# SPDX-License-Identifier: GPL-2.0
"""The modules of satcc-log and satcc-plot.

Recording and decoding only need the standard library, so they run on any host; graphs.py needs
matplotlib and numpy.
"""
