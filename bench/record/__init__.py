# SPDX-License-Identifier: GPL-2.0
"""What a run left: captures, traces, private bytes, read back."""
