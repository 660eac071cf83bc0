# SPDX-License-Identifier: GPL-2.0
"""make matrix: build, load and play the modules on several kernels."""
