# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator sees of the playbooks of a lab before they begin: a real run of ansible-playbook."""

from __future__ import annotations

from tests.unit.fleet.shadow import Fleet


def test_a_misspelt_variable_of_a_lab_is_refused(fleet: Fleet) -> None:
    done = fleet.run("lab_status", hosts={}, variables={"lab_dri": str(fleet.directory), "lab_user_id": 0})
    assert done.status != 0
    assert "did you mean lab_dir?" in done.output
