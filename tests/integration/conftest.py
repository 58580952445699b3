# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.integration import journal
from tests.integration.hostile import Attacker, attacker


@pytest.fixture(scope="session", autouse=True)
def _clean_machine() -> None:
    """Before the first test looks at the machine."""
    journal.remove_leftovers()


def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo[object]) -> None:
    """An engine that runs in this process makes an interrupt an error of its own. It ends the tests all the same."""
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, BallastError) and error.id == "core-interrupted":
        node.session.shouldstop = "interrupted"


@pytest.fixture
def mallory() -> Iterator[Attacker]:
    with attacker() as made:
        yield made
