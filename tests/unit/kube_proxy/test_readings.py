# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node answers to the production readiness questionnaire about its kube-proxy, from the whole `_info` module down to
the text that kube-proxy and the API gave."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import MEASURED, NO, UNKNOWN, YES
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Unavailable
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import inspection, switch
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import readiness_answers as r
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.artefact import Artefact
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.info import read
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rule import PreflightFinding
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import INFO_SPEC
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.rule_verification import Difference
from tests.unit import cases
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.kube_proxy.fake_node import CONFIG_PATH, SERVER, SERVICE, STATE, Node, config
from tests.unit.readings import BY_NAME, completed
from tests.unit.rules.given import endpoint, endpoint_slice, service

LINKS = [{"ifname": "eth0", "addr_info": [{"local": "192.0.2.10"}]}]
METRICS = """\
kubernetes_build_info{git_version="v1.37.1"} 1
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.7e+09
kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 0
kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="0.1"} 3
kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="16"} 4
kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="+Inf"} 4
"""
BLOCKER = PreflightFinding("preflight-x", "hard", ("a",), "it cannot be", "mend it", acknowledged=False)
WARNING = PreflightFinding("preflight-y", "soft", ("b",), "it may be", "see to it", acknowledged=False)


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules, residue and the checks before a change have tests of their own."""
    monkeypatch.setattr(inspection, "read_stale_rules", lambda _host, mode, bridged: [])
    monkeypatch.setattr(inspection, "compare_rules", lambda *_given, **_options: [])
    monkeypatch.setattr(switch, "compare_rules", lambda *_given, **_options: [])
    monkeypatch.setattr(r, "blocking_findings", lambda *_given: [])


def node(mode: str = "iptables", *, metrics: str = METRICS, kind: str = "runit") -> Node:
    made = Node(kind, mode=mode)
    made.host.on("ip", "-j", "address", answer=json.dumps(LINKS), reads=True)
    made.host.given("/proc/sys/kernel/osrelease", "6.12.0\n")
    made.host.given("/proc/sys/net/netfilter/nf_conntrack_count", "12\n")
    made.host.given("/proc/sys/net/netfilter/nf_conntrack_max", "100\n")
    said = Response(status=200, body=metrics.encode())
    made.host.answer("http://127.0.0.1:10249/metrics", lambda url, _body: made._says(url, "") and said)
    made.host.effects.clear()
    return made


def module(host: FakeHost, **options: Any) -> Mapping[str, Any]:
    given = {name: row.get("default") for name, row in INFO_SPEC.items()}
    return read(host, {**given, "service": SERVICE, "readiness": True, **options})


def reading(of: Node, **options: Any) -> dict[str, Any]:
    before = len(of.host.effects)
    found = module(of.host, **options)["readiness"]
    assert of.host.effects[before:] == [], "a reading changes nothing"
    assert json.loads(json.dumps(found, allow_nan=False)) is not None
    return completed(found)


def verdicts(found: Mapping[str, Any]) -> dict[str, str]:
    return {name: answer["verdict"] for name, answer in found["answers"].items()}


def figure(found: Mapping[str, Any], answer: str, name: str) -> Mapping[str, Any]:
    (one,) = [one for one in found["answers"][answer]["figures"] if one["name"].startswith(name)]
    told: Mapping[str, Any] = one
    return told


def test_a_node_that_is_well_answers_every_question() -> None:
    found = reading(node())
    assert verdicts(found) == dict.fromkeys(MEASURED, YES)
    assert (found["feature"], found["present"]) == ("kube_proxy", ())
    assert found["versions"] == {"kube-proxy": "v1.37.1", "Linux": "6.12.0"}
    slow = figure(found, "healthy", "kubeproxy_sync_proxy_rules_duration_seconds")
    assert slow["value"] == pytest.approx(0.1 + 15.9 * 0.96)
    assert [one["le"] for one in slow["buckets"]] == [0.1, 16, None]
    assert (figure(found, "scale", "Services")["value"], figure(found, "scale", "Services")["limit"]) == (2, 10_000)
    assert figure(found, "scale", "tracked connections")["limit"] == 100


def test_nothing_is_asked_for_that_was_not_asked_for() -> None:
    assert "readiness" not in module(node().host, readiness=False)


def test_a_host_without_kube_proxy_is_no_failure_and_has_the_feature_off() -> None:
    found = module(FakeHost())
    assert set(found) == {"readiness"}
    assert verdicts(found["readiness"]) == {"enabled": NO}
    assert CONFIG_PATH in found["readiness"]["answers"]["enabled"]["text"]


def test_a_host_that_had_one_by_our_record_is_a_failure() -> None:
    """It would else count as one on which the feature is off."""
    with pytest.raises(BallastError) as caught:
        module(FakeHost(files={f"{STATE}/ledger.jsonl": ""}))
    assert caught.value.id == "migrate-no-config"


def test_a_host_with_one_in_a_pod_that_nobody_told_of_is_a_failure() -> None:
    with pytest.raises(BallastError) as caught:
        module(node(kind="pod").host)
    assert caught.value.id == "migrate-no-config"
    assert "omit service and config_path" in caught.value.remedy


def test_a_node_that_names_no_mode_has_the_feature_off() -> None:
    one = node()
    one.host.given(CONFIG_PATH, json.dumps(config("")))
    found = reading(one)
    assert verdicts(found) == {"enabled": NO}
    assert "which is iptables" in found["answers"]["enabled"]["text"]


def test_one_that_does_not_answer_is_told() -> None:
    one = node()
    one.host.run(["sv", "down", SERVICE], timeout=5)
    found = reading(one)
    assert r.DOWN in found["present"]
    assert verdicts(found) == {
        **dict.fromkeys(MEASURED, YES),
        "healthy": NO,
        "dependencies": UNKNOWN,
        "disabling": UNKNOWN,
        "failures": NO,
    }
    assert "Start its service" in found["answers"]["healthy"]["remedy"]


def test_changes_that_wait_are_told() -> None:
    late = 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.8e+09\n'
    found = reading(node(metrics=METRICS + late))
    assert found["present"] == (r.NOT_IN_SYNC,)
    assert "changes wait to be written (IPv4)" in found["answers"]["healthy"]["text"]
    assert found["answers"]["failures"]["lines"] == (f"{r.NOT_IN_SYNC}: changes wait to be written (IPv4)",)


def test_failed_synchronisations_are_a_failure_mode_of_their_own() -> None:
    found = reading(node(metrics=METRICS.replace('_total{ip_family="IPv4"} 0', '_total{ip_family="IPv4"} 2')))
    assert found["present"] == (r.SYNC_FAILS,)
    failed = figure(found, "healthy", "failed synchronisations")
    assert (failed["value"], failed["limit"]) == (2, 0)
    assert "the counts restart at 0" in found["answers"]["healthy"]["remedy"]


def test_a_count_that_is_not_told_yet_is_none_of_failures() -> None:
    """As kube-proxy 1.37 in mode nftables leaves it out until the first."""
    lines = [line for line in METRICS.splitlines(keepends=True) if "failures" not in line]
    assert figure(reading(node(metrics="".join(lines))), "healthy", "failed synchronisations")["value"] == 0


def test_a_kube_proxy_in_a_pod_answers_the_same() -> None:
    found = reading(node(kind="pod"), deployment="daemonset", node_name="n1")
    assert verdicts(found) == dict.fromkeys(MEASURED, YES)


def test_slow_synchronisations_are_told_by_their_median() -> None:
    """The first one of a large cluster may be slow; it stands in the same histogram for ever."""
    assert r.SYNC_SLOW not in reading(node())["present"]
    slow = METRICS.replace('le="0.1"} 3', 'le="0.1"} 0')
    assert reading(node(metrics=slow))["present"] == ()  # half of 16 s
    slower = slow.replace('le="16"} 4', 'le="16"} 1')
    assert reading(node(metrics=slower))["present"] == (r.SYNC_SLOW,)


def test_rules_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        inspection,
        "compare_rules",
        lambda *_given, **_options: [Difference("default/web", "default/web: expected x, found y")],
    )
    found = reading(node())
    assert found["present"] == (r.DIFFERS,)
    assert found["answers"]["healthy"]["lines"] == ("default/web: expected x, found y",)
    assert verdicts(found)["healthy"] == NO


@pytest.mark.parametrize("is_down", [True, False])
def test_rules_that_differ_are_nobody_elses_while_kube_proxy_is_behind(
    monkeypatch: pytest.MonkeyPatch, is_down: bool
) -> None:
    monkeypatch.setattr(
        inspection,
        "compare_rules",
        lambda *_given, **_options: [Difference("default/web", "default/web: expected x, found none")],
    )
    late = 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.8e+09\n'
    one = node(metrics=METRICS + late)
    if is_down:
        one.host.run(["sv", "down", SERVICE], timeout=5)
    present = reading(one)["present"]
    assert (r.DOWN if is_down else r.NOT_IN_SYNC) in present
    assert r.DIFFERS not in present


def test_rules_that_cannot_be_read_are_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_given: object, **_options: object) -> list[str]:
        raise Unavailable("nft")

    monkeypatch.setattr(inspection, "compare_rules", missing)
    found = reading(node())
    assert verdicts(found) == {**dict.fromkeys(MEASURED, YES), "healthy": UNKNOWN, "failures": UNKNOWN}
    assert figure(found, "healthy", "differences between rules and Services")["value"] is None


def test_an_api_that_is_away_is_never_well_and_is_asked_once() -> None:
    one, asked = node(), []

    def away(url: str, _body: object) -> Any:
        asked.append(url)
        raise no_answer_error("GET", url, ConnectionRefusedError(111, "Connection refused"))

    one.host.answer(f"{SERVER}/api/v1/services", away)
    found = reading(one)
    assert verdicts(found) == {
        "enabled": YES,
        "in_use": UNKNOWN,
        "healthy": UNKNOWN,
        "dependencies": NO,
        "disabling": YES,
        "rollback": YES,
        "scale": UNKNOWN,
        "failures": UNKNOWN,
    }
    assert len(asked) == 1
    assert "kube-proxy's own kubeconfig" in found["answers"]["dependencies"]["remedy"]


def test_what_the_node_lacks_for_its_mode_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r, "blocking_findings", lambda *_given: [BLOCKER, WARNING])
    found = reading(node())
    assert verdicts(found)["dependencies"] == NO
    answer = found["answers"]["dependencies"]
    assert (answer["remedy"], len(answer["lines"])) == ("mend it", 2)


def test_a_soft_finding_is_told_and_stands_against_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r, "blocking_findings", lambda *_given: [WARNING])
    found = reading(node())
    assert verdicts(found)["dependencies"] == YES
    assert found["answers"]["dependencies"]["lines"] == ("preflight-y (soft): it may be: b",)


def changed(mode: str = "nftables") -> Node:
    one = node()
    cases.apply(ENGINE, one.asked(mode=mode), one.host)
    return one


def test_after_a_change_the_way_back_is_there_as_a_plan() -> None:
    found = reading(changed())
    assert verdicts(found) == dict.fromkeys(MEASURED, YES)
    assert "rolls the node back to mode iptables" in found["answers"]["rollback"]["text"]
    lines = found["answers"]["disabling"]["lines"]
    assert "change kube-proxy in mode iptables" in lines
    assert any("takeover table" in line for line in lines)


def test_a_way_back_that_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    one = changed()
    monkeypatch.setattr(
        r, "blocking_findings", lambda _host, desired, *_given: [BLOCKER] if desired.mode == "iptables" else []
    )
    found = reading(one)
    assert (verdicts(found)["rollback"], verdicts(found)["dependencies"]) == (NO, YES)
    assert found["answers"]["rollback"]["remedy"] == "mend it"


def test_a_change_that_waits_for_its_confirmation_has_not_ended() -> None:
    one = node()
    cases.apply(ENGINE, one.asked(mode="nftables", confirm_within=60), one.host)
    found = reading(one)
    assert found["present"] == (r.CHANGE_OPEN,)
    assert "waits for its confirmation" in found["answers"]["failures"]["lines"][0]
    assert "state: confirmed" in found["answers"]["failures"]["remedy"]


def test_a_file_that_says_another_mode_is_told() -> None:
    one = node()
    one.host.given(CONFIG_PATH, json.dumps(config("nftables")))
    assert reading(one)["present"] == (r.CONFIG_UNREAD,)


def test_what_another_mode_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Artefact("link", "kube-ipvs0", "removed", "why"), Artefact("set", "KUBE-SRC", "kept", "another's")]
    monkeypatch.setattr(inspection, "read_stale_rules", lambda *_given: rows)
    found = reading(node())
    assert found["present"] == (r.LEFT_OVER,)
    assert found["answers"]["failures"]["lines"] == (f"{r.LEFT_OVER}: stale objects: 1, the first: link kube-ipvs0",)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ({"at": 1763905200, "why": "the change was not confirmed"}, "2025-11-23T13:40:00Z: the change was not"),
        ({"at": "1e999"}, "at an unknown time: for an unknown reason"),
        ({"at": [], "why": None}, "at an unknown time"),
        ([1], "at an unknown time"),
    ],
)
def test_a_node_that_went_back_by_itself_says_so_and_is_well(outcome: object, told: str) -> None:
    one = node()
    one.host.given_ours(STATE, "kube-proxy")
    one.host.given(f"{STATE}/outcome.json", json.dumps(outcome))
    found = reading(one)
    assert verdicts(found) == dict.fromkeys(MEASURED, YES)
    assert told in found["answers"]["rollback"]["lines"][0]


@pytest.mark.parametrize(
    ("mode", "version", "services", "endpoints", "count", "over"),
    [
        ("iptables", "v1.37.1", 3, 2, "12", ""),
        ("iptables", "v1.37.1", 3, 2, "101", "tracked connections: 101"),
        ("nftables", "v1.35.0", 5001, 0, "12", "Services: 5001"),
        ("nftables", "v1.36.0", 5001, 0, "12", ""),
        ("iptables", "v1.35.0", 5001, 0, "12", ""),
    ],
)
def test_what_is_over_a_limit_is_told(
    mode: str, version: str, services: int, endpoints: int, count: str, over: str
) -> None:
    one = node(mode, metrics=METRICS.replace("v1.37.1", version))
    address = (f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}" for number in range(services))
    rows = [service(f"s{number}", clusterIP=ip, clusterIPs=[ip]) for number, ip in enumerate(address)]
    slices = [endpoint_slice([endpoint(f"10.1.0.{number}") for number in range(endpoints)], of="s0")]
    lists = {"/api/v1/services": rows, "/apis/discovery.k8s.io/v1/endpointslices": slices}
    for path, items in lists.items():
        one.host.answer(SERVER + path, json_answer(200, {"metadata": {"resourceVersion": "7"}, "items": items}))
    one.host.given("/proc/sys/net/netfilter/nf_conntrack_count", f"{count}\n")
    found = reading(one)
    assert verdicts(found)["scale"] == (NO if over else YES)
    assert over in found["answers"]["scale"]["text"]
    assert figure(found, "in_use", "endpoints")["value"] == endpoints


def test_without_a_service_of_anybody_it_is_not_in_use() -> None:
    one = node()
    rows = {"metadata": {"resourceVersion": "7"}, "items": [service("kubernetes")]}
    one.host.answer(f"{SERVER}/api/v1/services", json_answer(200, rows))
    assert verdicts(reading(one))["in_use"] == NO


def test_objects_that_cannot_be_are_unknown_and_no_traceback() -> None:
    one = node()
    rows = {"metadata": {"resourceVersion": "7"}, "items": [{"spec": 7}]}
    one.host.answer(f"{SERVER}/api/v1/services", json_answer(200, rows))
    found = reading(one)
    assert (verdicts(found)["in_use"], verdicts(found)["scale"]) == (UNKNOWN, UNKNOWN)


def test_no_secret_is_told() -> None:
    assert "hunter2" not in json.dumps(reading(changed()))


@settings(max_examples=20, deadline=None)
@given_any(st.text(max_size=120))
def test_whatever_kube_proxy_says_there_is_an_answer(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "read_stale_rules", lambda *_given: [])
        patch.setattr(inspection, "compare_rules", lambda *_given, **_options: [])
        patch.setattr(r, "blocking_findings", lambda *_given: [])
        found = reading(node(metrics=f"kubeproxy_sync_proxy_rules_duration_seconds_bucket{text}"))
    assert verdicts(found)["healthy"] == NO


def test_every_failure_mode_is_found_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    ids = {mode.id for mode in BY_NAME[r.NAME].failures}
    assert ids <= {id for name, id in vars(r).items() if isinstance(id, str) and re.search(rf"\br\.{name}\b", source)}
