# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.integration import journal


@pytest.fixture(scope="session", autouse=True)
def _clean_machine() -> None:
    """Before the first test looks at the machine."""
    journal.remove_leftovers()
