# SPDX-License-Identifier: GPL-2.0
"""The bench: scenarios, the lab that plays them, and the report."""
