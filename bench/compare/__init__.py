# SPDX-License-Identifier: GPL-2.0
"""make bench and make geo: the comparison's runs, the report's tables and plots, README's tables."""
