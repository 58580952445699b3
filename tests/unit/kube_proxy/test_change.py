# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The change of a node's kube-proxy: its plan in each case, what it shows, and what it leaves."""

from __future__ import annotations

import json

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import TAKEOVER_TABLE
from tests.unit import cases
from tests.unit.fakes import ListSink
from tests.unit.kube_proxy.fake_node import CONFIG_PATH, GUARD, GUARD_SERVICE, MODE_LABEL, STATE, Node, config
from tests.unit.kube_proxy.mode_changes import (
    AWAY,
    DOWN,
    KINDS,
    OVER,
    UP,
    apply,
    change,
    changed,
    down,
    plan,
    shrink,
    taken_back,
    up,
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


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
