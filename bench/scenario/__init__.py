# SPDX-License-Identifier: GPL-2.0
"""Scenarios as data: scenario files, their schema, satellite links, web traffic."""
