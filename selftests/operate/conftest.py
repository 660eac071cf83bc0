# SPDX-License-Identifier: GPL-2.0
"""Fixtures of the tests of tools/satcc."""

from selftests.operate.net import can_use_namespaces, net      # noqa: F401
