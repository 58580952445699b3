# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `kube_proxy_info` tells beside the state, and how findings of the preflight stand in the way."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import inspection
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.inspection import audit_rules, inspect, refuse
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import Facts, ModeChange
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rule import PreflightFinding
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.rule_verification import Difference
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.sources import Sources
from tests.unit.kube_proxy.fake_node import SERVER, SERVICE, Node

FOUND = PreflightFinding("preflight-x", "soft", ("a", "b"), "it stands in the way", "move it", acknowledged=False)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Residue and rules have tests of their own."""
    monkeypatch.setattr(inspection, "read_stale_rules", lambda _host, mode, bridged: [])
    monkeypatch.setattr(
        inspection, "compare_rules", lambda *_given, **options: [Difference("web", f"of {options['mode']}")]
    )


def look(node: Node, *, audit: bool = False, **options: Any) -> dict[str, Any]:
    desired = node.asked(**options)
    found = ENGINE.observe(Context(desired, node.host))
    sources = Sources(node.host, desired.where, found)
    compared = audit_rules(node.host, desired, found, sources) if audit else None
    return inspect(node.host, desired, found, sources, compared)


def test_a_node_in_order_says_so() -> None:
    found = look(Node(), mode="iptables")
    assert (found["in_order"], found["reason"], found["preflight"], found["differences"]) == (True, "", [], [])


def test_a_kube_proxy_that_has_not_synchronised_is_not_in_order() -> None:
    node = Node()
    node.unfit = {"iptables"}
    found = look(node, mode="iptables")
    assert not found["in_order"]
    assert found["reason"]


def test_an_audit_says_what_every_one_of_three_comparisons_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    node, read = Node(), []
    lasts, comes, goes = (Difference(name, f"{name}: expected x, found y") for name in ("lasts", "comes", "goes"))
    answers = [[lasts, goes], [lasts, comes], [comes, lasts]]

    def compare(_host: object, snapshot: object, *_given: object, **_options: object) -> list[Difference]:
        read.append(snapshot)
        return answers.pop(0)

    monkeypatch.setattr(inspection, "compare_rules", compare)
    begun = node.host.monotonic()
    assert look(node, audit=True, mode="iptables")["differences"] == ["lasts: expected x, found y"]
    assert len({id(snapshot) for snapshot in read}) == 3  # the Services are read again, too
    assert node.host.monotonic() - begun >= 4


def test_an_audit_without_a_difference_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    monkeypatch.setattr(inspection, "compare_rules", lambda *_given, **_options: [])
    begun = node.host.monotonic()
    assert look(node, audit=True, mode="iptables")["differences"] == []
    assert node.host.monotonic() - begun < 1


def test_one_that_does_not_answer_is_told_and_asked_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "blocking_findings", lambda *_given: [])
    node = Node()
    node.host.run(["sv", "down", SERVICE], timeout=5)
    found = look(node, mode="iptables", audit=True)
    assert (found["in_order"], found["reason"], found["differences"]) == (False, "it does not respond", [])


def test_the_preflight_is_that_of_a_change_to_another_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "blocking_findings", lambda *_given: [FOUND])
    assert look(Node(), mode="iptables")["preflight"] == []
    assert [one["id"] for one in look(Node(), mode="nftables")["preflight"]] == ["preflight-x"]


def test_rules_are_compared_where_that_is_asked_for() -> None:
    assert look(Node(), mode="iptables", audit=True)["differences"] == ["of iptables"]


def test_an_api_that_is_away_is_a_difference_that_nobody_can_exclude() -> None:
    node = Node()

    def away(url: str, _body: object) -> Any:
        raise no_answer_error("GET", url, ConnectionRefusedError(111, "Connection refused"))

    node.host.answer(f"{SERVER}/api/v1/services", away)
    (told,) = look(node, mode="iptables", audit=True)["differences"]
    assert "Connection refused" in told


def test_findings_that_are_not_acknowledged_are_refused_by_id_with_what_to_do() -> None:
    seen = PreflightFinding("preflight-y", "soft", ("c",), "known", "-", acknowledged=True)
    with pytest.raises(BallastError) as caught:
        refuse([FOUND, seen])
    assert caught.value.id == "migrate-preflight"
    for part in ("preflight-x (soft)", "it stands in the way: a; b", "fix: move it"):
        assert part in str(caught.value)
    assert "preflight-y" not in str(caught.value)
    refuse([seen])


def test_a_change_to_ipvs_is_checked_against_every_node_and_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ModeChange] = []

    def check(_host: object, change: ModeChange) -> Facts:
        seen.append(change)
        return Facts(change)

    monkeypatch.setattr(inspection, "read_facts", check)
    node = Node()
    look(node, mode="nftables")
    asked = [url for _method, url, _body in node.host.requests if "/api/v1/nodes" in url]
    look(node, mode="ipvs")
    later = [url for _method, url, _body in node.host.requests if "/api/v1/nodes" in url][len(asked) :]
    assert all("fieldSelector" in url for url in asked)
    assert [url for url in later if "fieldSelector" not in url]
    assert [change.api_server for change in seen] == ["", SERVER]
    kinds = [item["kind"] for item in seen[1].snapshot["items"]]  # type: ignore[index]
    assert kinds.count("Node") == 1, "this one is not listed twice"
