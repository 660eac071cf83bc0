# SPDX-License-Identifier: GPL-2.0
"""The papers' experiments run again: from data files to a verdict on every figure of theirs."""
