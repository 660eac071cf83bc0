# SPDX-License-Identifier: GPL-2.0
"""The lab: unmodified Linux kernels sending real TCP over an emulated link, in virtual time."""
