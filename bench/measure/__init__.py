# SPDX-License-Identifier: GPL-2.0
"""Numbers of a run, from its captures, traces and counters."""
