# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The change of a node's kube-proxy: its plan in each case, and that it ends well wherever it is killed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import (
    drain_record,
    switch,
    watchdog,
    watchdog_files,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import KubeProxyRequest
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.rule_verification import Difference
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import TAKEOVER_TABLE
from tests.unit import cases
from tests.unit.fakes import Killed, ListSink
from tests.unit.kube_proxy import draining_node
from tests.unit.kube_proxy.fake_node import (
    CONFIG_PATH,
    GUARD,
    GUARD_SERVICE,
    MODE_LABEL,
    NAME,
    STATE,
    Node,
    config,
)

UP = [
    f"make directory {GUARD}",
    f"make directory {GUARD}/sv",
    f"make program {GUARD}/guard.pyz",
    f"make file {GUARD}/guard.json",
    f"make cgroup {NAME}",
    f"make service {NAME}-guard",
    f"make supervisor of {GUARD}/sv",  # which under systemd always is
]
DOWN = [one.replace("make ", "remove ") for one in reversed(UP)]
OVER, AWAY = "make takeover table ballast-bridge", "remove takeover table ballast-bridge"
KINDS = ("runit", "systemd", "pod")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard's program without its sources, and rules that are as they are meant: both have tests of their own."""
    monkeypatch.setattr(watchdog_files, "PACKAGES", ())
    monkeypatch.setattr(switch, "compare_rules", lambda *_args, **_options: [])


def up(kind: str) -> list[str]:
    return UP[:-1] if kind == "systemd" else UP


def down(kind: str) -> list[str]:
    return DOWN[1:] if kind == "systemd" else DOWN


def told(plan: Plan) -> list[str]:
    return [f"{step.verb} {step.title}" for step in plan.steps]


def plan(node: Node, wanted: KubeProxyRequest) -> list[str]:
    """The plan, which is made without an effect."""
    before = len(node.host.effects)
    found = told(cases.plan_of(ENGINE, wanted, node.host))
    assert node.host.effects[before:] == []
    return found


def apply(node: Node, wanted: KubeProxyRequest) -> list[str]:
    return told(cases.apply(ENGINE, wanted, node.host))


def change(mode: str) -> str:
    return f"change kube-proxy in mode {mode}"


# Plans


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_the_mode_goes_over_the_bridge_and_leaves_neither_it_nor_the_guard(kind: str) -> None:
    node = Node(kind)
    wanted = node.asked()
    assert plan(node, wanted) == [*up(kind), OVER, change("nftables"), AWAY, *down(kind)]
    apply(node, wanted)
    assert (node.mode, node.left()) == ("nftables", [])
    assert plan(node, wanted) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_guard_stays_while_the_change_is_to_be_confirmed(kind: str) -> None:
    node = Node(kind)
    wanted = node.asked(confirm_within=60)
    assert plan(node, wanted) == [*up(kind), OVER, change("nftables"), AWAY]
    apply(node, wanted)
    assert node.tables == set()
    assert node.services.runs(GUARD_SERVICE)
    assert plan(node, wanted) == []
    confirmed = node.asked(state="confirmed")
    assert plan(node, confirmed) == down(kind)
    apply(node, confirmed)
    assert (node.mode, node.left()) == ("nftables", [])
    assert plan(node, confirmed) == []


def test_asked_for_again_without_a_deadline_the_change_is_confirmed() -> None:
    node = Node()
    apply(node, node.asked(confirm_within=60))
    assert plan(node, node.asked()) == DOWN


def test_without_another_mode_there_is_no_bridge() -> None:
    node = Node()
    wanted = node.asked(mode="iptables", config={"iptables": {"masqueradeAll": True}})
    assert plan(node, wanted) == [*UP, change("iptables"), *DOWN]
    apply(node, wanted)
    assert node.config() == config(iptables={"masqueradeAll": True})
    assert node.left() == []
    assert plan(node, wanted) == []


def test_a_file_that_kube_proxy_has_not_read_yet_is_a_change_of_the_mode() -> None:
    node = Node()
    node.host.given(CONFIG_PATH, json.dumps(config("nftables")))
    assert plan(node, node.asked()) == [*UP, OVER, change("nftables"), AWAY, *DOWN]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{"mode": "iptables"}, {"state": "confirmed"}, {"state": "previous"}], ids=str)
def test_a_node_that_is_as_it_is_wanted_and_was_never_changed_is_left_alone(kind: str, options: dict[str, str]) -> None:
    node = Node(kind)
    node.labels = {MODE_LABEL: "iptables"}
    given, wanted = node.host.snapshot(), node.asked(**options)
    assert plan(node, wanted) == []
    assert apply(node, wanted) == []
    assert (node.host.effects, node.host.snapshot()) == ([], given)


@pytest.mark.parametrize("kind", KINDS)
def test_the_way_back_is_a_change_like_the_way_there_and_forgets_it(kind: str) -> None:
    node = Node(kind)
    previous = node.asked(state="previous")
    apply(node, node.asked(confirm_within=60))
    assert plan(node, previous) == [f"change file {GUARD}/guard.json", OVER, change("iptables"), AWAY, *down(kind)]
    apply(node, previous)
    assert (node.mode, node.left(), node.labels) == ("iptables", [], {})
    assert node.host.paths(STATE) == []
    assert plan(node, previous) == []
    assert apply(node, previous) == []


def test_previous_is_what_was_before_the_last_change() -> None:
    node = Node()
    for mode in ("ipvs", "nftables"):
        apply(node, node.asked(mode=mode))
    apply(node, node.asked(state="previous"))
    assert node.mode == "ipvs"


def test_a_failed_change_leaves_the_record_of_the_one_before() -> None:
    node = Node()
    apply(node, node.asked(mode="ipvs"))
    node.unfit.add("nftables")
    with pytest.raises(BallastError, match="was not healthy"):
        apply(node, node.asked())
    assert (node.mode, node.left()) == ("ipvs", [])
    apply(node, node.asked(state="previous"))
    assert node.mode == "iptables"


def test_a_bridge_that_is_there_without_a_record_goes_with_the_change() -> None:
    node = Node()
    node.tables.add(("ip", TAKEOVER_TABLE))
    wanted = node.asked()
    assert plan(node, wanted) == [*UP, OVER, change("nftables"), AWAY, *DOWN]
    apply(node, wanted)
    assert (node.mode, node.left()) == ("nftables", [])
    assert plan(node, wanted) == []


# Diff


def test_the_difference_is_the_text_of_the_configuration_and_no_secret() -> None:
    node = Node()
    before = json.dumps(config())
    rows = ENGINE.diff(cases.plan_of(ENGINE, node.asked(config={"clusterCIDR": "10.1.0.0/16"}), node.host))
    shown = {row["after_header"]: (row["before"], row["after"]) for row in rows}
    after = json.dumps(config("nftables", clusterCIDR="10.1.0.0/16"), indent=2) + "\n"
    assert shown.pop("kube-proxy in mode nftables") == (
        f"# mode in effect: iptables\n{before}",
        f"# mode in effect: nftables\n{after}",
    )
    assert {part for row in shown.values() for part in row} == {"", "there\n"}
    assert "hunter2" not in json.dumps(rows)


def test_the_difference_of_a_pod_is_the_label_of_its_node() -> None:
    node = Node("pod")
    rows = ENGINE.diff(cases.plan_of(ENGINE, node.asked(), node.host))
    [row] = [row for row in rows if row["after_header"] == "kube-proxy in mode nftables"]
    assert row["before"] == "label: none\nmode in effect: iptables\n"
    assert row["after"] == "label: nftables\nmode in effect: nftables\n"


# What is killed, and what fails


def kill_everywhere(kind: str, first: Callable[[Node], object], then: Callable[[Node, str], None]) -> int:
    """Run `first` on a fresh node, killed at each of its effects in turn, each time followed by `then`."""
    number = 1
    while True:
        node = prepared(kind, first)
        node.host.fail_at(number, torn=True)
        try:
            first(node)
        except Killed:
            node.host.calm()
            then(node, f"killed at effect {number}, after {node.host.effects[-1] if node.host.effects else 'none'}")
        else:
            return number - 1
        number += 1


def prepared(kind: str, first: Callable[[Node], object]) -> Node:
    node = Node(kind)
    if first is not changed:
        apply(node, node.asked(confirm_within=60))
    return node


def changed(node: Node) -> None:
    apply(node, node.asked())


def confirmed(node: Node) -> None:
    apply(node, node.asked(state="confirmed"))


def taken_back(node: Node) -> None:
    apply(node, node.asked(state="previous"))


def is_new(node: Node, at: str) -> None:
    assert (node.mode, node.left()) == ("nftables", []), at
    assert node.labels == ({MODE_LABEL: "nftables"} if node.kind == "pod" else {}), at
    assert plan(node, node.asked()) == [], at


def is_old(node: Node, at: str) -> None:
    assert (node.mode, node.labels, node.left()) == ("iptables", {}, []), at
    assert node.host.paths(STATE) == [], at
    if node.kind != "pod":
        assert (node.config(), node.host.mode(CONFIG_PATH)) == (config(), 0o640), at
    assert plan(node, node.asked(state="previous")) == [], at


@pytest.mark.parametrize("fails", [False, True], ids=["changed", "undone"])
def test_the_configuration_keeps_owner_and_mode_behind_a_link_too(fails: bool) -> None:
    node, real = Node("runit"), "/etc/kubernetes/real/kube-proxy.yaml"
    node.host.given_behind_link(CONFIG_PATH, real, 65, 66, mode=0o600)
    if fails:
        node.unfit = {"nftables"}
        with pytest.raises(BallastError):
            changed(node)
    else:
        changed(node)
        taken_back(node)
    assert (node.mode, node.host.owner(real), node.host.readlink(CONFIG_PATH)) == ("iptables", (65, 66, 0o600), real)


def test_a_configuration_that_others_could_replace_is_left_alone_and_kube_proxy_runs_on() -> None:
    node = Node("runit")
    node.host.given_behind_link(CONFIG_PATH, "/srv/open/kube-proxy.yaml", 0, 0, mode=0o600)
    node.host.given_owner("/srv/open", 0, 0, mode=0o777)
    with pytest.raises(BallastError) as caught:
        changed(node)
    assert caught.value.id in ("core-place-open", "core-undo")
    assert node.mode == "iptables"
    assert node.host.owner("/srv/open/kube-proxy.yaml") == (0, 0, 0o600)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_killed_at_any_effect_is_made_by_the_next_run(kind: str) -> None:
    def then(node: Node, at: str) -> None:
        changed(node)
        is_new(node, at)

    assert kill_everywhere(kind, changed, then) > 60


@pytest.mark.parametrize("kind", ["systemd", "pod"])
def test_a_change_killed_at_any_effect_is_taken_back_by_the_next_run(kind: str) -> None:
    def then(node: Node, at: str) -> None:
        taken_back(node)
        is_old(node, at)

    assert kill_everywhere(kind, changed, then) > 60


@pytest.mark.parametrize("last", [confirmed, taken_back])
def test_an_armed_change_ends_as_it_was_told_last_wherever_that_was_killed(last: Callable[[Node], None]) -> None:
    def then(node: Node, at: str) -> None:
        last(node)
        (is_new if last is confirmed else is_old)(node, at)

    assert kill_everywhere("runit", last, then) > 20


def test_a_change_killed_at_any_effect_is_taken_back_by_the_guard_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there is none yet, or none any more, nothing of the bridge is there either."""
    monkeypatch.setattr(watchdog, "FileSink", lambda _path: ListSink())
    went = []

    def then(node: Node, at: str) -> None:
        mode = node.mode
        if node.services.runs(GUARD_SERVICE) and node.host.read(f"{GUARD}/guard.json"):
            watchdog.go_back(node.host, STATE)
            assert (node.mode, node.labels, node.left()) == ("iptables", {}, []), at
            outcome = json.loads(node.host.text(f"{STATE}/outcome.json"))
            assert outcome["why"] == "the change was not confirmed", at
            went.append(mode)
        else:
            assert node.tables == set(), at

    assert kill_everywhere("pod", changed, then) > 60
    assert set(went) == {"iptables", "nftables"}


def test_the_guard_of_a_second_change_goes_back_to_the_first_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of the first change is there as long as the second one is not made."""
    monkeypatch.setattr(watchdog, "FileSink", lambda _path: ListSink())
    number, went = 1, 0
    while True:
        node = Node("runit")
        apply(node, node.asked(mode="ipvs"))
        node.host.fail_at(number, torn=True)
        try:
            changed(node)
        except Killed:
            node.host.calm()
        else:
            break
        if node.services.runs(GUARD_SERVICE) and node.host.read(f"{GUARD}/guard.json"):
            watchdog.go_back(node.host, STATE)
            assert (node.mode, node.left()) == ("ipvs", []), f"killed at effect {number}"
            went += 1
        number += 1
    assert went > 10


def test_a_change_that_fails_at_any_effect_is_undone_at_once_and_one_that_was_made_stays() -> None:
    number, stayed = 1, 0
    while True:
        node = Node("systemd")
        node.host.fail_at(number, HostError("the disk says no", id="core-eio"))
        try:
            changed(node)
        except HostError as error:
            at = f"failed at effect {number}: {error}"
            assert node.tables == set(), at
            if node.mode == "nftables":  # with the last line of the journal
                stayed += 1
                changed(node)
                is_new(node, at)
            else:
                taken_back(node)
                is_old(node, at)
        else:
            break
        number += 1
    assert (number > 60, stayed) == (True, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["unfit", "lost", "blind"])
def test_a_change_whose_proof_fails_leaves_the_node_as_it_was(kind: str, wrong: str) -> None:
    node = Node(kind)
    if wrong == "blind":
        node.blind = True
    else:
        setattr(node, wrong, {"nftables"})
    with pytest.raises(BallastError) as caught:
        changed(node)
    assert caught.value.id == {"unfit": "migrate-gate", "lost": "migrate-probe", "blind": "migrate-bridge"}[wrong]
    assert "left: nothing" in str(caught.value)
    assert ("from the node: timed out" in str(caught.value)) == (wrong == "lost")
    is_old(node, wrong)


def test_rules_that_are_not_as_meant_are_asked_three_times_then_the_change_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, asked = Node(), []

    def differences(*_args: object, mode: str, **_options: object) -> list[Difference]:
        asked.append(mode)
        line = f"default/web: expected an answer, found none at try {len(asked)}"
        return [Difference("default/web", line)] if mode == "nftables" else []

    monkeypatch.setattr(switch, "compare_rules", differences)
    with pytest.raises(BallastError) as caught:
        changed(node)
    assert (caught.value.id, caught.value.found) == (
        "migrate-audit",
        "default/web: expected an answer, found none at try 3",
    )
    assert asked == ["nftables"] * 3 + ["iptables"]
    is_old(node, "audit")


def test_a_difference_that_goes_by_itself_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Difference("default/one", "default/one: expected an answer, found none")
    node, answers = Node(), [[one], [one], []]
    monkeypatch.setattr(switch, "compare_rules", lambda *_args, **_options: answers.pop(0))
    changed(node)
    is_new(node, "in the end")


def test_services_that_differ_one_after_the_other_are_services_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    node, asked = Node(), []

    def differences(*_args: object, **_options: object) -> list[Difference]:
        asked.append(f"default/web-{len(asked)}")
        return [Difference(asked[-1], f"{asked[-1]}: expected an answer, found none")]

    monkeypatch.setattr(switch, "compare_rules", differences)
    changed(node)
    assert len(asked) == 2
    is_new(node, "after the second comparison")


@pytest.mark.parametrize("kind", KINDS)
def test_beside_an_ipvs_that_comes_and_goes_again_connections_of_the_node_do_not_have_its_addresses(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, found = Node(kind, mode="nftables"), []
    node.lost = {"ipvs"}
    monkeypatch.setattr(
        switch.own_source, "use_own_address", lambda _host: found.append((node.mode, bool(node.tables)))
    )
    with pytest.raises(BallastError):
        apply(node, node.asked(mode="ipvs"))
    made, came, left = ("nftables", False), ("ipvs", True), ("ipvs", True)
    assert found == [made, came, left]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_connections_of_ipvs_go_on_after_the_change_and_after_the_way_back(kind: str, mode: str) -> None:
    node, kernel = in_ipvs(kind)
    was_open, weights = dict(kernel.open), kernel.weights()
    begun = node.host.monotonic()
    apply(node, node.asked(mode=mode, drain_seconds=600))
    assert node.host.monotonic() - begun < 10, "the change waits for no connection"
    assert (node.mode, node.left(), kernel.open) == (mode, [], was_open)
    assert kernel.weights()[draining_node.WEB] == "0"
    assert draining_node.HIDDEN not in kernel.links
    draining = drain_record.describe(node.host)
    assert draining is not None
    assert draining["connections"] == 5
    apply(node, node.asked(state="previous"))
    assert (node.mode, node.left(), kernel.open) == ("ipvs", [], was_open)
    assert {key: weights[key] for key in kernel.weights()} == kernel.weights()
    assert drain_record.describe(node.host) is None


@pytest.mark.parametrize("wrong", ["unfit", "lost"])
def test_a_failed_change_gives_ipvs_its_connections_back(wrong: str) -> None:
    node, kernel = in_ipvs("runit")
    was_open, weights = dict(kernel.open), kernel.weights()
    setattr(node, wrong, {"nftables"})
    with pytest.raises(BallastError) as caught:
        changed(node)
    assert "left: nothing" in str(caught.value)
    assert (node.mode, node.left(), kernel.open) == ("ipvs", [], was_open)
    assert {key: weights[key] for key in kernel.weights()} == kernel.weights()


def test_sources_of_the_node_stay_its_own_while_addresses_of_ipvs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    node, _kernel = in_ipvs("runit")
    calls: list[str] = []
    monkeypatch.setattr(switch.own_source, "use_service_addresses", lambda _host: calls.append(node.mode))
    changed(node)
    assert calls == []
    apply(node, node.asked(state="previous"))
    assert calls == ["ipvs"]


def test_the_result_says_where_the_seconds_of_a_change_went() -> None:
    node, sink = Node(), ListSink()
    ctx = Context(node.asked(), node.host, Progress(sink, feature="kube-proxy"))
    assert ENGINE.report(ctx)["change_seconds"] == {}
    ENGINE.apply(ENGINE.plan(ctx.desired, ENGINE.observe(ctx)), ctx)
    parts = ["takeover_table", "probe", "restart", "synchronise", "compare", "reach", "takeover_table_removed"]
    found = ENGINE.report(ctx)["change_seconds"]
    assert isinstance(found, dict)
    assert list(found) == parts
    assert "kube-proxy's first synchronisation took 0.0 s" in [event.text for event in sink.events]


def in_ipvs(kind: str) -> tuple[Node, draining_node.DrainingKernel]:
    """A node whose kube-proxy does what it does to virtual servers when it starts."""
    node = Node(kind, mode="ipvs")
    kernel = draining_node.DrainingKernel(node.host)
    node.host.on("ip", "-j", "-4", answer=1, reads=True)  # routes: test_own_source.py
    node.host.on("ip", "-j", "-6", answer=1, reads=True)
    node.on_start = lambda: kernel.kube_proxy_starts(node.mode)
    node.on_chains = kernel.silence
    return node, kernel
