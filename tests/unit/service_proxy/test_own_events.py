# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the service proxy tells its own transactions of nftables from those of others."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.transaction import Operation, plan
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import kernel as module
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.kernel import Kernel
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.netlink import Commit

OURS, OTHERS = 4711, 815


class Nftables:
    """The kernel: counts transactions, and tells of each. It is the events and the library too."""

    def __init__(self) -> None:
        self.transactions = 0
        self.waiting: list[Commit] = []
        self.asked = 0
        self.refuses = False
        self.before, self.after = False, False  # another program has one between the questions and ours

    def transaction(self, pid: int, table: str = SERVICE_PROXY_TABLE) -> None:
        self.transactions += 1
        self.waiting.append(Commit(self.transactions, frozenset({(4, table)}), pid, "nft"))

    def generation(self) -> int:
        self.asked += 1
        return self.transactions

    def drain(self) -> list[Commit]:
        drained, self.waiting = self.waiting, []
        return drained

    def run(self, text: str) -> str:
        if self.before:
            self.transaction(OTHERS)
        if self.refuses:
            return "no"
        self.transaction(OURS)
        if self.after:
            self.transaction(OTHERS)
        return ""


@pytest.fixture
def nftables() -> Nftables:
    return Nftables()


@pytest.fixture
def kernel(nftables: Nftables, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    def given(*_arguments: Any) -> Nftables:
        return nftables

    for name in ("NftablesEvents", "AddressEvents", "_library"):
        monkeypatch.setattr(module, name, given)
    return Kernel(LocalHost())


def operations() -> tuple[Operation, ...]:
    return plan(Table("ip", SERVICE_PROXY_TABLE), None)


def test_a_transaction_of_its_own_is_none_of_others_and_is_asked_for_only_once(
    kernel: Kernel, nftables: Nftables
) -> None:
    kernel.commit(operations())
    assert kernel.intrusions() == {}
    asked = nftables.asked
    for _change in range(3):
        kernel.commit(operations())
    nftables.transaction(OTHERS, "theirs")
    assert kernel.intrusions() == {}
    assert (nftables.transactions, nftables.asked) == (5, asked)


def test_one_of_others_is_told_before_and_after_its_own_are_known(kernel: Kernel, nftables: Nftables) -> None:
    for _round in range(2):
        nftables.transaction(OTHERS)
        kernel.commit(operations())
        assert [commit.pid for commit in kernel.intrusions().values()] == [OTHERS]
    nftables.before = True
    kernel.commit(operations())
    assert [commit.pid for commit in kernel.intrusions().values()] == [OTHERS]


@pytest.mark.parametrize("when", ["before", "after"])
def test_who_it_is_is_not_learned_from_a_transaction_beside_that_of_another(
    kernel: Kernel, nftables: Nftables, when: str
) -> None:
    setattr(nftables, when, True)
    kernel.commit(operations())
    assert kernel.intrusions() != {}  # which of the two is its own is not known
    setattr(nftables, when, False)
    nftables.transaction(OTHERS)
    assert [commit.pid for commit in kernel.intrusions().values()] == [OTHERS]
    kernel.commit(operations())
    kernel.commit(operations())
    assert kernel.intrusions() == {}


def test_a_kernel_that_does_not_say_who_it_was_is_asked_each_time(
    kernel: Kernel, nftables: Nftables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nftables, "run", lambda _text: nftables.transaction(0) or "")
    for _change in range(2):
        kernel.commit(operations())
        assert kernel.intrusions() == {}
    nftables.transaction(0)
    assert len(kernel.intrusions()) == 1


@pytest.mark.parametrize("known", [False, True])
def test_a_refusal_is_an_error(kernel: Kernel, nftables: Nftables, known: bool) -> None:
    if known:
        kernel.commit(operations())
        kernel.intrusions()
    nftables.refuses = True
    with pytest.raises(BallastError, match="the kernel refused"):
        kernel.commit(operations())
    nftables.transaction(OTHERS)
    assert [commit.pid for commit in kernel.intrusions().values()] == [OTHERS]
