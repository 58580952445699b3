# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ipvs rules meet a real kernel: that of a virtual machine, as few hosts have ip_vs, and nobody may load it for a test.

It runs ipvs_in_vm.py, residue_in_vm.py, draining_in_vm.py and used_addresses_in_vm.py and ends.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration import uml

TESTS = (
    "tests/integration/ipvs_in_vm.py",
    "tests/integration/residue_in_vm.py",
    "tests/integration/draining_in_vm.py",
    "tests/integration/used_addresses_in_vm.py",
)
SECONDS = 900


@pytest.mark.vm
def test_ipvs_in_a_virtual_machine(tmp_path: Path) -> None:
    uml.run_tests(*TESTS, prepare="ip link set lo up", place=tmp_path, seconds=SECONDS)
