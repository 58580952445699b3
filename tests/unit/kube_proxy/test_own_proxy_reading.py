# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of a node in mode `ballast`, and of one that is to be: state, preflight, leftovers, readiness, rules."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import health, inspection, rule_verification
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import ENGINE as CLEANUP
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import SPEC, CleanupRequest
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.hold import _OURS_IN_RUN
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.info import read
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import Facts, ModeChange
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.node_rules import packages_missing
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import RULES, preflight
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import INFO_SPEC
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.takeover_table import takeover_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import INSTALLATION
from tests.unit.fakes import FakeHost
from tests.unit.kube_proxy.fake_node import SERVICE, STATE
from tests.unit.kube_proxy.own_proxy_changes import replaced, shrink
from tests.unit.kube_proxy.replaced_node import BALLAST, ReplacedNode

SEEN: list[ModeChange] = []


@pytest.fixture(autouse=True)
def _facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a change is checked with; the checks have tests of their own."""
    shrink(monkeypatch)
    SEEN.clear()

    def keep(_host: object, change: ModeChange) -> Facts:
        SEEN.append(change)
        return Facts(change)

    monkeypatch.setattr(inspection, "read_facts", keep)
    monkeypatch.setattr(inspection, "compare_rules", lambda *_given, **_options: [])


def info(node: ReplacedNode, **options: Any) -> dict[str, Any]:
    given = {name: row.get("default") for name, row in INFO_SPEC.items()}
    return dict(read(node.host, {**given, "service": SERVICE, **options}))


def test_its_state_and_health_are_those_of_what_serves() -> None:
    node = ReplacedNode()
    replaced(node)
    found = info(node, audit_rules=True)
    assert (found["mode"], found["previous_mode"], found["in_order"], found["armed"]) == (
        BALLAST,
        "iptables",
        True,
        False,
    )
    assert [row for row in found["residue"] if row["fate"] == "removed"] == []
    assert found["differences"] == []
    node.crashing = True
    assert (info(node)["mode"], info(node)["in_order"]) == ("", False)


def test_rules_that_are_not_in_force_yet_are_no_health() -> None:
    host = FakeHost()
    for port in (10249, 10256):
        host.given_port(port)
    host.answer("http://127.0.0.1:10249/proxyMode", health_answer(200, "nftables"))
    host.answer("http://127.0.0.1:10256/readyz", health_answer(503, "no"))
    host.answer("http://127.0.0.1:10256/livez", health_answer(200, "ok"))
    assert health.read_problem(host, {}, BALLAST) == "it returns 503 on /readyz"


def health_answer(status: int, text: str) -> Any:
    from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response

    return Response(status=status, body=text.encode())


def test_checks_go_by_the_rules_that_both_modes_have() -> None:
    node = ReplacedNode()
    info(node, mode=BALLAST)
    replaced(node)
    info(node, mode="nftables")
    info(node, mode="iptables")
    assert [(one.from_mode, one.to_mode, one.is_ours) for one in SEEN] == [
        ("iptables", "nftables", True),
        ("nftables", "nftables", False),
        ("nftables", "iptables", False),
    ]
    assert [one.new_config["mode"] for one in SEEN] == ["nftables", "nftables", "iptables"]


def test_what_is_in_its_way_is_said_before_a_change() -> None:
    node = ReplacedNode()
    node.host.given(INSTALLATION.command, "")
    with pytest.raises(BallastError) as caught:
        info(node, mode=BALLAST)
    assert caught.value.id == "migrate-ballast-installed"


def test_packages_that_it_needs_are_a_blocker_with_their_command() -> None:
    change = ModeChange("iptables", "nftables", {}, {}, is_ours=True, kube_proxy_version="v1.37.2")
    facts = Facts(change, missing_packages=("python3-prometheus-client", "nftables"))
    [line] = packages_missing(facts)
    assert "python3-prometheus-client, nftables: " in line
    [finding] = [one for one in preflight(facts) if one.id == "preflight-service-proxy-packages"]
    assert (finding.severity, finding.is_blocking) == ("hard", True)
    assert packages_missing(Facts(change)) == []


def test_what_versions_of_kube_proxy_do_wrong_does_not_keep_it_out() -> None:
    versioned = [rule for rule in RULES if rule.versions.limited and rule.applies.covers("iptables", "nftables")]
    for is_ours in (False, True):
        covered = {
            rule.id
            for minor in range(27, 44)
            for rule in versioned
            if rule.covers(
                Facts(ModeChange("iptables", "nftables", {}, {}, is_ours=is_ours, kube_proxy_version=f"v1.{minor}.0"))
            )
        }
        assert bool(covered) != is_ours


@pytest.mark.parametrize("mode", ["", BALLAST])
def test_a_clean_up_knows_by_the_record_that_it_serves(mode: str) -> None:
    node = ReplacedNode(mode="nftables")
    replaced(node)
    node.tables |= {("ip", "kube-proxy")}
    given = {**{name: row.get("default") for name, row in SPEC.items()}, "mode": mode or None, "state_dir": STATE}
    desired = CleanupRequest.from_params(given, node.host)
    ctx = Context(desired, node.host)
    done = CLEANUP.apply(CLEANUP.plan(desired, CLEANUP.observe(ctx)), ctx)
    assert (done.mode, sorted(node.tables)) == (
        BALLAST,
        [("ip", "ballast-service-proxy"), ("ip6", "ballast-service-proxy")],
    )


def test_a_clean_up_for_kube_proxys_own_mode_is_refused_while_it_serves() -> None:
    node = ReplacedNode(mode="nftables")
    replaced(node)
    given = {**{name: row.get("default") for name, row in SPEC.items()}, "mode": "nftables", "state_dir": STATE}
    with pytest.raises(BallastError) as caught:
        CLEANUP.observe(Context(CleanupRequest.from_params(given, node.host), node.host))
    assert caught.value.id == "residue-mode-other"


def test_its_readiness_names_no_unread_file() -> None:
    node = ReplacedNode()
    replaced(node)
    found = info(node, readiness=True)["readiness"]
    assert "in mode ballast" in str(found)
    assert "kube-proxy-config-unread" not in str(found)


def test_a_setting_without_effect_is_a_finding_that_does_not_block() -> None:
    node = ReplacedNode()
    desired = node.asked(mode=BALLAST, config={"oomScoreAdj": -500})
    ENGINE.apply(ENGINE.plan(desired, ENGINE.observe(Context(desired, node.host))), Context(desired, node.host))
    [finding] = ENGINE.verify(Context(desired, node.host))
    assert (finding.id, finding.blocking) == ("service-proxy-config-unused", False)


def test_rules_are_compared_with_our_own_table() -> None:
    backend = rule_verification._backend(FakeHost(), BALLAST, "")
    assert isinstance(backend, Nftables)
    assert (backend.table, backend.owner) == ("ballast-service-proxy", "service-proxy")


def test_a_takeover_table_before_it_answers_as_it_does() -> None:
    config = {"nftables": {"masqueradeAll": True}, "iptables": {"masqueradeBit": 3}}
    assert takeover_config(config, BALLAST) == takeover_config(config, "nftables")
    assert takeover_config(config, BALLAST)["nftables"] == {"masqueradeAll": True}


def test_the_hold_names_the_directory_of_the_installation() -> None:
    assert INSTALLATION.sockets == _OURS_IN_RUN
