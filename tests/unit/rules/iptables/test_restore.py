# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.names import LAYOUT, cluster_chain
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.restore import (
    Operation,
    commit,
    plan,
    plan_removal,
    read,
    restore_text,
    select_own,
    variant_in_use,
    variants,
)
from tests.unit.fakes import FakeHost
from tests.unit.rules.iptables.kernel import Kernel
from tests.unit.rules.iptables.views import config, everything, here, service, view
from tests.unit.rules.strategies import Scenario, scenarios

ONE = service("one", here("10.1.0.5"))
TWO = service("two", here("10.1.0.6"), cluster_ip="10.96.0.10")


def foreign(family: int) -> Kernel:
    """A machine with rules of a CNI plugin, of an operator and of the kubelet, some of which jump to our chains."""
    kernel = Kernel(family)
    kernel.chain("nat", "CNI-HOSTPORT-SETMARK").append("-j KUBE-MARK-MASQ")
    kernel.chain("nat", "KUBE-MARK-MASQ").append("-j MARK --set-xmark 0x8/0x8")
    kernel.chain("nat", "POSTROUTING").append("-o eth9 -j MASQUERADE")
    kernel.chain("filter", "KUBE-FIREWALL").append("-m mark --mark 0x8000/0x8000 -j DROP")
    kernel.chain("filter", "INPUT").extend(['-m comment --comment "mine; not yours" -j LOG', "-j KUBE-FIREWALL"])
    kernel.chain("filter", "OUTPUT").append("-j KUBE-FIREWALL")
    kernel.chain("mangle", "KUBE-IPTABLES-HINT")
    kernel.chain("mangle", "KUBE-KUBELET-CANARY")
    kernel.policies["filter", "FORWARD"] = "DROP"
    return kernel


def apply(kernel: Kernel, wanted: Tables) -> tuple[Operation, ...]:
    host = kernel.host()
    found = read(host, family=kernel.family, variant=kernel.variant)
    operations = plan(wanted, found, LAYOUT)
    commit(operations, host, live=found, layout=LAYOUT, variant=kernel.variant)
    return operations


def state(kernel: Kernel) -> Tables:
    return parse(kernel.save(), family=kernel.family)


def kinds(operations: tuple[Operation, ...]) -> list[str]:
    return [f"{one.kind} {one.target}" for one in operations]


@given(first=scenarios(backend="iptables", family=4), second=scenarios(backend="iptables", family=4))
def test_from_any_rules_to_any_others(first: Scenario, second: Scenario) -> None:
    kernel = foreign(4)
    before = deepcopy(kernel.tables)
    for scenario in (first, second):
        wanted = compile_rules(scenario.view, scenario.config)
        apply(kernel, wanted)
        assert select_own(state(kernel), LAYOUT) == select_own(wanted, LAYOUT)
        assert apply(kernel, wanted) == ()
        assert _foreign_rules(kernel.tables) >= _foreign_rules(before)
    now = read(kernel.host(), family=4, variant="nft")
    commit(plan_removal(now, LAYOUT), kernel.host(), live=now, layout=LAYOUT, variant="nft")
    left = {line for line in _foreign_rules(kernel.tables) - _foreign_rules(before) if "KUBE-FIREWALL" not in line}
    assert not left
    assert kernel.tables["nat"]["KUBE-MARK-MASQ"] == [], "a chain that a plugin jumps to is emptied and stays"
    assert [name for name in kernel.tables["nat"] if name.startswith("KUBE-")] == ["KUBE-MARK-MASQ"]


def _foreign_rules(tables: dict[str, dict[str, list[str]]]) -> set[str]:
    """Every rule that is not of the layout, and every chain."""
    found: set[str] = set()
    for table, chains in tables.items():
        for name, rules in chains.items():
            if not LAYOUT.owns(table, name):
                found |= {f"{table} {name}", *(f"{table} {name} {rule}" for rule in rules if '"kube' not in rule)}
    return found


def test_rules_that_are_there_need_no_operation() -> None:
    wanted = compile_rules(everything(4), config())
    kernel = Kernel()
    assert apply(kernel, wanted)
    host = kernel.host()
    assert plan(wanted, read(host, family=4, variant="nft"), LAYOUT) == ()
    commit((), host, live=wanted, layout=LAYOUT, variant="nft")
    assert host.effects == []


def test_one_service_more_rewrites_what_it_is_in() -> None:
    found = compile_rules(view([ONE]), config())
    wanted = compile_rules(view([ONE, TWO]), config())
    endpoint = next(rule.target.chain for rule in wanted.chain("nat", cluster_chain(TWO)).rules[1:])  # type: ignore[union-attr]
    assert kinds(plan(wanted, found, LAYOUT)) == [
        f"add chain nat {endpoint}",
        "replace chain nat KUBE-SERVICES",
        f"add chain nat {cluster_chain(TWO)}",
    ]
    assert kinds(plan(found, wanted, LAYOUT)) == [
        "replace chain nat KUBE-SERVICES",
        f"delete chain nat {endpoint}",
        f"delete chain nat {cluster_chain(TWO)}",
    ]


def test_a_missing_jump_goes_before_what_others_put_there() -> None:
    kernel = Kernel()
    apply(kernel, compile_rules(view([]), config()))
    jumps = list(kernel.tables["filter"]["INPUT"])
    assert [jump.split()[-1] for jump in jumps] == [
        "KUBE-FIREWALL",
        "KUBE-PROXY-FIREWALL",
        "KUBE-NODEPORTS",
        "KUBE-EXTERNAL-SERVICES",
    ]
    kernel.tables["filter"]["INPUT"] = ["-p tcp -j DROP", jumps[2]]
    operations = apply(kernel, compile_rules(view([]), config()))
    assert kinds(operations) == ["insert rule filter INPUT"]
    assert kernel.tables["filter"]["INPUT"] == [jumps[0], jumps[1], jumps[3], "-p tcp -j DROP", jumps[2]]


def test_a_jump_of_an_older_release_is_replaced() -> None:
    kernel = Kernel()
    apply(kernel, compile_rules(view([]), config()))
    old = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
    kernel.tables["filter"]["FORWARD"].append(old)
    assert kinds(apply(kernel, compile_rules(view([]), config()))) == ["delete rule filter FORWARD"]
    assert old not in kernel.tables["filter"]["FORWARD"]


def test_a_jump_of_another_program_to_a_chain_of_ours_is_not_ours() -> None:
    kernel = Kernel()
    theirs = "-i wg0 -j KUBE-MARK-MASQ"
    kernel.chain("nat", "KUBE-MARK-MASQ")
    kernel.chain("nat", "PREROUTING").append(theirs)
    apply(kernel, compile_rules(view([ONE]), config()))
    now = state(kernel)
    commit(plan_removal(now, LAYOUT), kernel.host(), live=now, layout=LAYOUT, variant="nft")
    assert kernel.tables["nat"]["PREROUTING"] == [theirs]
    assert kernel.tables["nat"]["KUBE-MARK-MASQ"] == []
    assert plan_removal(state(kernel), LAYOUT) == (), "and then there is nothing left to do"


def test_a_jump_is_deleted_in_the_words_that_iptables_save_has_for_it() -> None:
    kernel = Kernel()
    jump = '-m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
    kernel.chain("filter", "KUBE-SERVICES")
    kernel.chain("filter", "FORWARD").append(jump)
    found = state(kernel)
    assert f"-D FORWARD {jump}" in restore_text(plan_removal(found, LAYOUT)).splitlines()
    assert "insert rule filter FORWARD" not in kinds(plan(found, found, LAYOUT))


def test_what_the_kubelet_has_stays_when_all_is_removed() -> None:
    kernel = foreign(4)
    apply(kernel, compile_rules(everything(4), config()))
    now = state(kernel)
    assert not any("KUBE-FIREWALL" in one.target or "mangle" in one.target for one in plan_removal(now, LAYOUT))


def test_the_guard_of_loopback_is_added_to_the_kubelets_chain_once() -> None:
    kernel = foreign(4)
    apply(kernel, compile_rules(view([]), config()))
    guard, theirs = kernel.tables["filter"]["KUBE-FIREWALL"]
    assert "block incoming localnet connections" in guard
    assert theirs == "-m mark --mark 0x8000/0x8000 -j DROP"
    assert [rule for rule in kernel.tables["filter"]["INPUT"] if "KUBE-FIREWALL" in rule] == ["-j KUBE-FIREWALL"]


@pytest.mark.parametrize("refuses", ["-A KUBE-FORWARD", "-A KUBE-POSTROUTING", "-I PREROUTING"])
def test_a_refused_restore_leaves_what_was_there(refuses: str) -> None:
    kernel = foreign(4)
    apply(kernel, compile_rules(view([ONE]), config()))
    before = deepcopy(kernel.tables)
    for chain in ("KUBE-FORWARD", "KUBE-POSTROUTING"):
        kernel.tables["filter" if "FORWARD" in chain else "nat"][chain].append("-j ACCEPT")
        before["filter" if "FORWARD" in chain else "nat"][chain].append("-j ACCEPT")
    kernel.tables["nat"]["PREROUTING"].clear()
    before["nat"]["PREROUTING"].clear()
    kernel.refuses = refuses
    with pytest.raises(BallastError) as caught:
        apply(kernel, compile_rules(everything(4), config()))
    assert caught.value.id == "rules-iptables-restore"
    assert "line" in caught.value.found
    kernel.refuses = ""
    assert {table: set(chains) for table, chains in kernel.tables.items()} == {
        table: set(chains) for table, chains in before.items()
    }
    assert kernel.tables == before


def test_what_cannot_be_put_back_is_told() -> None:
    kernel = Kernel()
    apply(kernel, compile_rules(view([ONE]), config()))
    found = state(kernel)
    host = kernel.host()
    operations = plan(compile_rules(everything(4), config()), found, LAYOUT)

    def break_down(call: object) -> Completed:
        done = Kernel.restore(kernel, call)  # type: ignore[arg-type]
        return Completed(done.argv, 1, "", "Bad thing")

    host.on("iptables-nft-restore", answer=break_down)
    with pytest.raises(BallastError, match="could not be restored"):
        commit(operations, host, live=found, layout=LAYOUT, variant="nft")


def test_text_is_one_restore_with_chains_before_rules_and_deletions_last() -> None:
    found = compile_rules(view([ONE]), config())
    text = restore_text(plan(compile_rules(view([TWO]), config()), found, LAYOUT)).splitlines()
    assert text[0] == "*nat"
    assert text[-1] == "COMMIT"
    order = [line[:2] if line[0] == "-" else line[0] for line in text[1:-1]]
    assert order == sorted(order, key=[":", "-A", "-I", "-D", "-X"].index)


def test_the_variant_is_the_one_that_iptables_is() -> None:
    host = FakeHost()
    host.on("iptables", "--version", answer="iptables v1.8.7 (legacy)\n", reads=True)
    assert variant_in_use(host) == "legacy"
    assert variants(host) == ("legacy",)
    host.on("iptables-nft-save", answer="", reads=True)
    assert variants(host) == ("legacy", "nft")


def test_a_distribution_with_one_variant_has_no_name_for_it() -> None:
    host = FakeHost()
    host.on("iptables", "--version", answer="iptables v1.8.10 (nf_tables)\n", reads=True)
    host.on("ip6tables-save", answer="", reads=True)
    assert read(host, family=6, variant="nft") == Tables(6)
    with pytest.raises(BallastError) as caught:
        read(host, family=6, variant="legacy")
    assert caught.value.id == "core-tool-missing"


def test_an_iptables_that_does_not_say_what_it_is_is_refused() -> None:
    host = FakeHost()
    host.on("iptables", "--version", answer="iptables v1.4.21\n", reads=True)
    with pytest.raises(BallastError) as caught:
        variant_in_use(host)
    assert caught.value.id == "rules-iptables-variant"
