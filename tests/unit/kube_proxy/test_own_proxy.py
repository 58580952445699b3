# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mode `ballast`: our service proxy in the place of kube-proxy, there and back, and wherever the change is killed or fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import hold, watchdog
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import KubeProxyRequest
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.engine import (
    ENGINE as SERVICE_PROXY,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import INSTALLATION
from tests.unit import cases
from tests.unit.fakes import ListSink
from tests.unit.kube_proxy.fake_node import CONFIG_PATH, GUARD, GUARD_SERVICE, STATE, Node, config, params
from tests.unit.kube_proxy.killed_runs import kill_at_every_effect
from tests.unit.kube_proxy.mode_changes import AWAY, OVER, change, down, up
from tests.unit.kube_proxy.own_proxy_changes import KINDS, apply, replaced, shrink, taken_back
from tests.unit.kube_proxy.replaced_node import BALLAST, DROP_IN, LINK, OUR_UNIT, ReplacedNode
from tests.unit.service_proxy.machine import deployment

INSTALL = [
    "make record of kube-proxy",
    f"make directory {INSTALLATION.library}",
    f"make program {INSTALLATION.program}",
    f"make file {INSTALLATION.command}",
    "make directory /etc/ballast",
    f"make directory {INSTALLATION.logs}",
    f"make directory {INSTALLATION.sockets}",
    f"make cgroup {INSTALLATION.cgroup}",
    f"make directory {STATE}/sv",
    f"make supervisor of {STATE}/sv",
]
REMOVE = [one.replace("make ", "remove ") for one in reversed(INSTALL)]
End = Callable[[ReplacedNode], None]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def install(kind: str) -> list[str]:
    return [one for one in INSTALL if kind != "systemd" or "supervisor" not in one]


def remove(kind: str) -> list[str]:
    return [one for one in REMOVE if kind != "systemd" or "supervisor" not in one]


def plan(node: Node, wanted: KubeProxyRequest) -> list[str]:
    before = len(node.host.effects)
    steps = [f"{step.verb} {step.title}" for step in cases.plan_of(ENGINE, wanted, node.host).steps]
    assert node.host.effects[before:] == []
    return steps


def to_nftables(node: ReplacedNode) -> None:
    apply(node, mode="nftables")


def confirmed(node: ReplacedNode) -> None:
    apply(node, state="confirmed")


def state_of(node: ReplacedNode) -> dict[str, object]:
    """All that a change may leave. Not of it are the journal, the logs, which are kept, a controller that was enabled for cgroups,
    and which process kube-proxy is."""
    left_out = (
        f"{STATE}/ledger.jsonl",
        f"{STATE}/lock",
        f"{STATE}/outcome.json",
        INSTALLATION.logs,
        "/sys/fs/cgroup/cgroup.subtree_control",
        "/etc/sv/kube-proxy/supervise/",
    )
    found = {path: value for path, value in node.host.snapshot().items() if not path.startswith(left_out)}
    words = (" ".join(one.argv) for one in node.host.processes.values())
    return {**found, "processes": [one for one in words if "ballast" in one], "tables": sorted(node.tables)}


def is_old(node: ReplacedNode, at: str) -> None:
    assert node.serving == "iptables", at
    assert state_of(node) == state_of(ReplacedNode(node.kind)), at
    assert plan(node, node.asked(state="previous")) == [], at


def is_replaced(node: ReplacedNode, at: str) -> None:
    assert (node.serving, node.left_of_change()) == (BALLAST, []), at
    assert hold.is_held(node.host, node.asked(mode=BALLAST).where.service), at
    assert (node.config(), node.host.mode(CONFIG_PATH)) == (config(), 0o640), at
    assert plan(node, node.asked(mode=BALLAST)) == [], at


# Plans


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_installed_under_the_watchdog_and_started_behind_the_takeover_table(kind: str) -> None:
    node = ReplacedNode(kind)
    assert plan(node, node.asked(mode=BALLAST)) == [
        *up(kind),
        *install(kind),
        OVER,
        change(BALLAST),
        AWAY,
        *down(kind),
    ]
    replaced(node)
    is_replaced(node, "once")
    settings = json.loads(node.host.text(INSTALLATION.config))
    assert settings == {**{key: value for key, value in config().items() if key != "mode"}, "hostnameOverride": "n1"}
    assert ENGINE.report(Context(node.asked(mode=BALLAST), node.host))["mode"] == BALLAST


@pytest.mark.parametrize("kind", KINDS)
def test_the_way_back_leaves_nothing_of_it(kind: str) -> None:
    node = ReplacedNode(kind)
    replaced(node)
    assert plan(node, node.asked(state="previous")) == [
        *up(kind),
        OVER,
        change("iptables"),
        AWAY,
        *down(kind),
        *remove(kind),
    ]
    taken_back(node)
    is_old(node, "back")


@pytest.mark.parametrize("kind", KINDS)
def test_another_mode_of_kube_proxy_and_back_to_it(kind: str) -> None:
    node = ReplacedNode(kind)
    replaced(node)
    to_nftables(node)
    assert (node.serving, node.left_of_change()) == ("nftables", [])
    assert node.host.stat(INSTALLATION.command) is None
    taken_back(node)
    assert (node.serving, node.left_of_change()) == (BALLAST, [])
    assert plan(node, node.asked(mode=BALLAST)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_armed_change_keeps_what_it_would_go_back_to_until_it_is_confirmed(kind: str) -> None:
    node = ReplacedNode(kind)
    replaced(node)
    apply(node, mode="nftables", confirm_within=60)
    assert node.serving == "nftables"
    assert node.host.stat(INSTALLATION.command) is not None
    assert plan(node, node.asked(state="confirmed")) == [*down(kind), *remove(kind)]
    confirmed(node)
    assert (node.serving, node.host.stat(INSTALLATION.command)) == ("nftables", None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rules_of_the_former_mode_are_removed_and_only_they(kind: str) -> None:
    node = ReplacedNode(kind, mode="nftables")
    replaced(node)
    assert sorted(node.tables) == [("ip", "ballast-service-proxy"), ("ip6", "ballast-service-proxy")]
    taken_back(node)
    assert sorted(node.tables) == [("ip", "kube-proxy"), ("ip6", "kube-proxy")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_setting_is_a_change_without_a_takeover_table_and_kube_proxys_file_stays(kind: str) -> None:
    node = ReplacedNode(kind)
    replaced(node)
    wanted = node.asked(mode=BALLAST, config={"clusterCIDR": "10.1.0.0/16"})
    assert plan(node, wanted) == [*up(kind), change(BALLAST), *down(kind)]
    cases.apply(ENGINE, wanted, node.host)
    assert json.loads(node.host.text(INSTALLATION.config))["clusterCIDR"] == "10.1.0.0/16"
    assert node.config() == config()
    assert plan(node, wanted) == []


def test_what_is_held_is_found_without_a_process() -> None:
    node = ReplacedNode("runit")
    replaced(node)
    found = KubeProxyRequest.from_params(params(mode=BALLAST))
    from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.find import locate

    where = locate(found, node.host).where
    assert (where.deployment, where.service, where.config_path) == ("service", "/etc/sv/kube-proxy", CONFIG_PATH)


def test_previous_is_kube_proxy_also_where_the_node_went_back_to_the_service_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "FileSink", lambda _path: ListSink())
    node = ReplacedNode("systemd")
    replaced(node)
    apply(node, mode="nftables", confirm_within=60)
    watchdog.go_back(node.host, STATE)
    is_replaced(node, "went back")
    assert ENGINE.report(Context(node.asked(mode=BALLAST), node.host))["previous_mode"] == "iptables"
    taken_back(node)
    assert (node.serving, node.left_of_change(), node.config()) == ("iptables", [], config())
    assert node.host.stat(INSTALLATION.command) is None


# The hold


def test_under_systemd_nothing_starts_kube_proxy_while_our_unit_is_there() -> None:
    node = ReplacedNode("systemd")
    replaced(node)
    node.host.run(["systemctl", "start", "kube-proxy"], timeout=1)
    assert node.serving == BALLAST
    assert f"ConditionPathExists=!{OUR_UNIT}\n" in node.host.text(DROP_IN)
    node.host.remove(OUR_UNIT)
    node.host.run(["systemctl", "start", "kube-proxy"], timeout=1)
    assert "iptables" in node.serving


def test_under_runit_the_hold_ends_with_a_restart_of_the_machine() -> None:
    node = ReplacedNode("runit")
    replaced(node)
    assert node.host.readlink(LINK) == INSTALLATION.sockets
    assert hold.is_held(node.host, "/etc/sv/kube-proxy")
    node.restart_machine()
    assert not hold.is_held(node.host, "/etc/sv/kube-proxy")


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_restart_of_the_machine_the_way_back_is_open(kind: str) -> None:
    node = ReplacedNode(kind)
    replaced(node)
    node.restart_machine()
    taken_back(node)
    is_old(node, "back")


def test_a_kube_proxy_that_somebody_starts_beside_it_is_stopped_again() -> None:
    node = ReplacedNode("runit")
    replaced(node)
    node.host.run(["sv", "up", "/etc/sv/kube-proxy"], timeout=1)
    assert node.serving == f"iptables {BALLAST}"
    replaced(node)
    is_replaced(node, "again")


# What is refused, before anything is changed


@pytest.mark.parametrize("kind", KINDS)
def test_another_state_directory_does_not_start_kube_proxy_beside_it(kind: str) -> None:
    node = ReplacedNode(kind)
    replaced(node)
    given = node.host.snapshot()
    with pytest.raises(BallastError) as caught:
        apply(node, mode="nftables", state_dir="/var/lib/ballast/other")
    assert (caught.value.id, node.host.snapshot()) == ("migrate-held-elsewhere", given)


@pytest.mark.parametrize("kind", KINDS)
def test_the_module_of_the_service_proxy_does_not_take_it_over(kind: str) -> None:
    node = ReplacedNode(kind)
    replaced(node)
    settings = node.host.text(INSTALLATION.config)
    with pytest.raises(BallastError):
        cases.apply(SERVICE_PROXY, deployment(), node.host)
    assert (node.serving, node.host.text(INSTALLATION.config)) == (BALLAST, settings)


def refused(node: ReplacedNode, **options: Any) -> BallastError:
    given = node.host.snapshot()
    with pytest.raises(BallastError) as caught:
        apply(node, mode=BALLAST, **options)
    assert node.host.snapshot() == given
    return caught.value


def test_a_pod_of_a_daemonset_cannot_be_held() -> None:
    assert refused(ReplacedNode("pod")).id == "migrate-ballast-daemonset"


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_proxy_of_another_installation_is_left_alone(kind: str) -> None:
    node = ReplacedNode(kind)
    node.host.given(INSTALLATION.command, "#!/bin/sh\n", mode=0o755)
    assert refused(node).id == "migrate-ballast-installed"


@pytest.mark.parametrize(("kind", "path"), [("runit", LINK), ("systemd", DROP_IN)])
def test_what_others_have_in_the_place_of_the_hold_is_left_alone(kind: str, path: str) -> None:
    node = ReplacedNode(kind)
    node.host.given(path, "theirs\n")
    assert refused(node).id == "migrate-hold-taken"


def test_a_configuration_that_it_does_not_take_is_refused_with_all_reasons() -> None:
    error = refused(ReplacedNode(), config={"clientConnection": {"kubeconfig": None}, "oomScoreAdj": 5000})
    assert isinstance(error, Problems)
    assert [problem.id for problem in error.problems] == ["service-proxy-kubeconfig", "rules-config-value"]


# What is killed, and what fails


def kill_everywhere(kind: str, first: End, then: Callable[[ReplacedNode, str], None], *before: End) -> int:
    """`before` is done to each node first."""

    def fresh() -> ReplacedNode:
        node = ReplacedNode(kind)
        for act in before:
            act(node)
        return node

    return kill_at_every_effect(fresh, first, then)


def armed(node: ReplacedNode) -> None:
    apply(node, mode=BALLAST, confirm_within=60)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_effect_it_is_in_its_place_after_the_next_run(kind: str) -> None:
    def then(node: ReplacedNode, at: str) -> None:
        replaced(node)
        is_replaced(node, at)

    assert kill_everywhere(kind, replaced, then) > 90


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_effect_it_is_gone_after_a_run_that_goes_back(kind: str) -> None:
    def then(node: ReplacedNode, at: str) -> None:
        taken_back(node)
        is_old(node, at)

    assert kill_everywhere(kind, replaced, then) > 90


@pytest.mark.parametrize("kind", KINDS)
def test_a_way_back_that_is_killed_at_any_effect_ends_with_the_next_run(kind: str) -> None:
    def then(node: ReplacedNode, at: str) -> None:
        taken_back(node)
        is_old(node, at)

    assert kill_everywhere(kind, taken_back, then, replaced) > 90


@pytest.mark.parametrize("kind", KINDS)
def test_a_way_back_that_is_killed_at_any_effect_can_be_undone_by_the_next_run(kind: str) -> None:
    def then(node: ReplacedNode, at: str) -> None:
        replaced(node)
        is_replaced(node, at)

    assert kill_everywhere(kind, taken_back, then, replaced) > 90


@pytest.mark.parametrize("last", [confirmed, taken_back])
def test_an_armed_change_ends_as_it_was_told_last_wherever_that_was_killed(last: End) -> None:
    def then(node: ReplacedNode, at: str) -> None:
        last(node)
        (is_replaced if last is confirmed else is_old)(node, at)

    assert kill_everywhere("runit", last, then, armed) > 20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("first", "before"), [(replaced, ()), (to_nftables, (replaced,))], ids=["there", "back"])
def test_killed_at_any_effect_the_watchdog_takes_it_back(
    kind: str, first: End, before: tuple[End, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is none yet, or none any more, one of the two serves, and nothing of the takeover table is there."""
    monkeypatch.setattr(watchdog, "FileSink", lambda _path: ListSink())
    former, later = (BALLAST, "nftables") if before else ("iptables", BALLAST)
    went = 0

    def then(node: ReplacedNode, at: str) -> None:
        nonlocal went
        if node.services.runs(GUARD_SERVICE) and node.host.read(f"{GUARD}/guard.json"):
            watchdog.go_back(node.host, STATE)
            assert (node.serving, node.left_of_change()) == (former, []), at
            went += 1
        else:
            assert node.serving in (former, later), at
            assert ("ip", "ballast-bridge") not in node.tables, at

    assert kill_everywhere(kind, first, then, *before) > 90
    assert went > 20


@pytest.mark.parametrize(("first", "before"), [(replaced, ()), (taken_back, (replaced,))], ids=["there", "back"])
def test_an_effect_that_fails_is_undone_at_once(first: End, before: tuple[End, ...]) -> None:
    number, stayed = 1, 0
    former, later = (BALLAST, "iptables") if before else ("iptables", BALLAST)
    while True:
        node = ReplacedNode("systemd")
        for act in before:
            act(node)
        node.host.fail_at(number, HostError("the disk says no", id="core-eio"))
        try:
            first(node)
        except HostError as error:
            at = f"failed at effect {number}: {error}"
            assert ("ip", "ballast-bridge") not in node.tables, at
            assert node.serving in (former, later), at
            stayed += node.serving == later
            first(node)
            (is_old if before else is_replaced)(node, at)
        else:
            break
        number += 1
    assert number > 90
    assert stayed <= 4, "only where the journal or the lock could not be removed after the last step"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["unfit", "lost", "blind", "crashing"])
def test_a_service_proxy_that_does_not_prove_itself_leaves_kube_proxy_as_it_was(kind: str, wrong: str) -> None:
    node = ReplacedNode(kind)
    setattr(node, wrong, True if wrong in ("blind", "crashing") else {BALLAST})
    with pytest.raises(BallastError) as caught:
        replaced(node)
    assert (
        caught.value.id
        == {
            "unfit": "migrate-gate",
            "lost": "migrate-probe",
            "blind": "migrate-bridge",
            "crashing": "service-proxy-deploy-settings",
        }[wrong]
    )
    assert "left: nothing" in str(caught.value)
    is_old(node, wrong)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["unfit", "lost"])
def test_a_kube_proxy_that_does_not_prove_itself_leaves_the_service_proxy_as_it_was(kind: str, wrong: str) -> None:
    node = ReplacedNode(kind)
    replaced(node)
    setattr(node, wrong, {"nftables"})
    with pytest.raises(BallastError) as caught:
        to_nftables(node)
    assert "left: nothing" in str(caught.value)
    is_replaced(node, wrong)
