# SPDX-License-Identifier: GPL-2.0
"""make bench and make geo: what is compared, the tables and plots of the report, README's tables."""
