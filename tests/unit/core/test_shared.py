# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.shared_directory import SharedDirectoryKind
from tests.unit.fakes import FakeHost, Killed

PATH = "/run/netns"
KIND = SharedDirectoryKind()


def hold(host: FakeHost, holder: str) -> None:
    KIND.write(Context(None, host), f"{PATH} {holder}", {}, KIND.read(Context(None, host), f"{PATH} {holder}"))
    assert KIND.read(Context(None, host), f"{PATH} {holder}") == {}


def leave(host: FakeHost, holder: str) -> None:
    KIND.remove(Context(None, host), f"{PATH} {holder}", {})
    assert KIND.read(Context(None, host), f"{PATH} {holder}") == ABSENT


@pytest.mark.parametrize("there_before", [True, False])
def test_the_last_of_two_holders_removes_what_the_first_one_made(there_before: bool) -> None:
    host = FakeHost()
    if there_before:
        host.given_directory(PATH)
    given = host.snapshot()
    hold(host, "one")
    hold(host, "two")
    leave(host, "one")
    assert host.stat(PATH) is not None
    leave(host, "two")
    assert host.snapshot() == given


def test_what_others_put_into_it_stays() -> None:
    host = FakeHost()
    hold(host, "one")
    host.given(f"{PATH}/theirs", "")
    leave(host, "one")
    assert host.stat(f"{PATH}/theirs") is not None


def test_a_killed_run_is_seen_as_half_done() -> None:
    host = FakeHost()
    host.fail_at(3)
    with pytest.raises(Killed):
        hold(host, "one")
    assert KIND.read(Context(None, host), f"{PATH} one") not in ({}, ABSENT)
    hold(host, "one")
    leave(host, "one")
    assert host.stat(PATH) is None
