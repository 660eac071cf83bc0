# SPDX-License-Identifier: GPL-2.0
"""make matrix: what each of several kernels builds, loads and plays."""
