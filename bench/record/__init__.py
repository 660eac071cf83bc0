# SPDX-License-Identifier: GPL-2.0
"""Readers of a run's files: captures, traces, and the private bytes of congestion controls."""
