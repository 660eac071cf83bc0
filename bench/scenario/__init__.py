# SPDX-License-Identifier: GPL-2.0
"""What is played, as data: scenario files, their schema, satellite links, web traffic."""
