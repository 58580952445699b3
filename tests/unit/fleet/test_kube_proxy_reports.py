# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.kube_proxy_looks import audit, cleanup
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.kube_proxy_preview import preview, way_back
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.kube_proxy_run import (
    Run,
    judge_batch,
    outcome,
)
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import Request
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.run import query_values

FINDING = {
    "id": "preflight-kernel-too-old",
    "severity": "hard",
    "acknowledged": False,
    "text": "mode nftables needs Linux 5.13",
    "found": ["Linux 4.18"],
    "remedy": "boot a newer kernel",
}
GATE = {"pause": 0, "command": [], "query": "q", "prometheus": "http://p", "threshold": 0.5}
Rows = Mapping[str, Optional[Mapping[str, Any]]]


def names(count: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in range(1, count + 1))


def asked(count: int, *, mode: str = "nftables", acts: bool = True, **more: Any) -> Request:
    playbook = "kube_proxy_migrate" if mode else "kube_proxy_rollback"
    return Request(playbook, hosts=names(count), acts=acts, mode=mode, gate=GATE, **more)


def look(mode: Optional[str] = "ipvs", **more: Any) -> dict[str, Any]:
    healthy = {"in_order": True, "reason": "", "armed": False, "bridged": False, "residue": [], "differences": []}
    return {
        "mode": mode,
        "version": "v1.37.1",
        "node_name": "x",
        "previous_mode": None,
        "preflight": [],
        **healthy,
        **more,
    }


def test_two_thousand_nodes_are_previewed_in_a_few_lines() -> None:
    looks: dict[str, Any] = {name: look() for name in names(2000)}
    for number in range(1, 101):
        looks[f"n{number}"] = look(preflight=[{**FINDING, "found": [f"Linux 4.{number % 2}"]}])
    looks["n1999"] = {"unreachable": True, "msg": "Connection timed out"}
    found = preview(asked(2000, acts=False), looks)
    assert found.lines == (
        "ipvs -> nftables: 1999 nodes (n[1-1998,2000])",
        "no response:  Connection timed out: 1 node (n1999)",
        "hard preflight-kernel-too-old: 100 nodes (n[1-100])",
        "  mode nftables needs Linux 5.13",
        *(line for line in found.lines if line.startswith("  found: Linux 4.")),
        "  do:    boot a newer kernel",
        "batches: 1, 5, 200 (9 times), 193; the run ends when more than 0 nodes fail",
    )
    assert len(found.lines) == 8
    assert "preflight checks block the change on 100 of 2000 nodes: preflight-kernel-too-old" in found.failure
    assert found.facts["changing"] == []


def test_a_preview_says_how_to_act_and_ends_well() -> None:
    found = preview(asked(3, acts=False), {name: look() for name in names(3)})
    assert found.failure == ""
    assert found.lines[-2:] == (
        "this was a preview: nothing was changed",
        "  do:    read what would happen above, then run the same command again with -e kube_proxy_confirm=true",
    )
    assert (found.facts["changing"], found.facts["serial"]) == ([], [])


def test_nodes_that_are_done_are_left_alone_when_a_run_goes_on() -> None:
    looks = {
        "n1": look("nftables"),
        "n2": look("nftables", in_order=False),
        "n3": look("nftables", armed=True),
        "n4": look(),
    }
    found = preview(asked(4, canaries=("n4",)), looks)
    assert found.facts["changing"] == ["n4", "n2", "n3"]
    assert preview(asked(4), looks, configured=["n1"]).facts["changing"] == ["n1", "n2", "n3", "n4"]
    assert "stays nftables: 1 node (n1)" in found.lines


def test_an_acknowledged_finding_lets_the_change_begin() -> None:
    accepted = {**FINDING, "severity": "soft", "acknowledged": True}
    found = preview(asked(1), {"n1": look(preflight=[accepted])})
    assert (found.failure, found.facts["changing"]) == ("", ["n1"])
    assert "soft, acknowledged preflight-kernel-too-old: 1 node (n1)" in found.lines


def test_nodes_without_an_answer_count_against_max_fail() -> None:
    looks = {"n1": look(), "n2": {"failed": True, "msg": "Missing sudo password\nmore"}}
    assert "no response from 1 node (n2), and kube_proxy_max_fail allows 0" in preview(asked(2), looks).failure
    found = preview(asked(2, max_fail=1), looks)
    assert (found.failure, found.facts["changing"]) == ("", ["n1"])
    assert "no response:  Missing sudo password: 1 node (n2)" in found.lines


def test_a_daemonset_that_is_found_on_a_node_needs_the_kubeconfig() -> None:
    looks = {"n1": look(deployment="daemonset"), "n2": look(deployment="service")}
    found = preview(asked(2), looks)
    assert "a DaemonSet runs kube-proxy on 1 node (n1), and kube_proxy_admin_kubeconfig is not set" in found.failure
    assert found.facts["changing"] == []
    assert preview(asked(2, admin_kubeconfig="/a"), looks).failure == ""


def test_hosts_that_a_limit_leaves_out_are_named() -> None:
    found = preview(asked(3), {"n1": look(), "n2": None, "n3": None})
    assert "excluded by --limit: 2 nodes (n[2-3])" in found.lines
    assert found.facts["changing"] == ["n1"]


def test_a_rollback_takes_the_mode_from_the_record() -> None:
    looks = {
        "n1": look("nftables", previous_mode="ipvs"),
        "n2": look("nftables"),
        "n3": look("ipvs", previous_mode="ipvs"),
    }
    found = preview(asked(3, mode=""), looks)
    assert found.facts["changing"] == ["n1"]
    assert found.lines[:3] == (
        "nftables -> ipvs: 1 node (n1)",
        "stays nftables, its journal has no change: 1 node (n2)",
        "stays ipvs: 1 node (n3)",
    )
    assert (found.facts["from_modes"], found.facts["to_modes"]) == (["nftables"], ["ipvs"])


def test_the_way_back_of_daemonsets() -> None:
    looks = {"n1": look("nftables", previous_mode="ipvs")}

    def back(**result: Any) -> Mapping[str, Any]:
        return way_back(["n1"], looks, daemonsets=[{"item": "ipvs", **result}], from_modes=["nftables"]).facts

    assert back(canary="") == {
        "nodes": {"n1": {"state": "previous"}},
        "daemonsets": [{"mode": "nftables", "state": "absent"}],
    }
    present = {"state": "present", "mode": "ipvs", "acknowledge": ["preflight-ipvs-deprecated"]}
    own = {"nodes": {"n1": present}, "daemonsets": [{"mode": "ipvs", "state": "final"}]}
    assert back(canary="kube-proxy-ipvs") == own
    assert back(changed=True) == own, "in check mode, where it would be made"


def test_the_plan_is_data() -> None:
    looks: dict[str, Any] = {
        "n1": look(preflight=[FINDING]),
        "n2": look("nftables"),
        "n3": {"failed": True, "msg": "no"},
    }
    plan = json.loads(json.dumps(preview(asked(3, acts=False), looks).facts["plan"]))
    assert plan["nodes"] == [
        {"host": "n1", "node_name": "x", "version": "v1.37.1", "from": "ipvs", "to": "nftables", "batch": 1},
        {"host": "n2", "node_name": "x", "version": "v1.37.1", "from": "nftables", "to": "nftables", "batch": None},
    ]
    assert (plan["version"], plan["batches"], plan["no_answer"]) == (1, [["n1"]], {"n3": "no"})
    (finding,) = plan["findings"]
    assert (finding["id"], finding["nodes"], finding["found"]) == (FINDING["id"], ["n1"], {"n1": "Linux 4.18"})


def confirmed(**more: Any) -> dict[str, Any]:
    return {"changed": True, "mode": "nftables", "outcome": "confirmed", "began": 1.8e9, "seconds": 97.2, **more}


BAD = {
    "failed": True,
    "changed": True,
    "outcome": "went_back",
    "msg": "10 differences\n  do: look",
    "began": 1.8e9,
    "seconds": 60,
}


def test_a_batch_with_few_enough_failures_lets_the_run_go_on() -> None:
    found = judge_batch(asked(5, max_fail=1), ["n1", "n2"], {"n1": confirmed(), "n2": BAD}, {"n1": look("nftables")})
    batch = {"batch": ["n1", "n2"], "failed_hosts": ["n2"], "failed_so_far": ["n2"], "gate_problems": []}
    assert found.facts == {**batch, "stop": False, "take_back": [], "kept": ["n1"]}
    assert found.lines == ("batch of 2 nodes (n[1-2]): 1 done, 1 failed", "  10 differences: 1 node (n2)")


def test_failures_of_all_batches_count() -> None:
    found = judge_batch(
        asked(5, max_fail=1),
        ["n1", "n2"],
        {"n1": confirmed(), "n2": BAD},
        {"n1": look("nftables")},
        failed_before=["n5"],
    )
    batch = {"batch": ["n1", "n2"], "failed_hosts": ["n2"], "failed_so_far": ["n2", "n5"], "gate_problems": []}
    assert found.facts == {**batch, "stop": True, "take_back": ["n1"], "kept": []}
    assert (
        found.lines[-1] == "the run ends: 2 nodes failed, and kube_proxy_max_fail allows 1; rolling back: 1 node (n1)"
    )


def test_what_failed_in_other_slices_of_a_fleet_run_counts_and_is_not_this_ones() -> None:
    batch, changed = ["n1", "n2"], {"n1": confirmed(), "n2": BAD}
    found = judge_batch(asked(5, max_fail=1), batch, changed, {"n1": look("nftables")}, elsewhere=["n8"])
    assert (found.facts["stop"], found.facts["take_back"], found.facts["failed_so_far"]) == (True, ["n1"], ["n2"])


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (look("nftables", in_order=False, reason="3 syncs failed"), "after the change: 3 syncs failed"),
        (look("ipvs"), "after the change: mode ipvs"),
        ({"unreachable": True, "msg": "timed out"}, "after the change: timed out"),
    ],
)
def test_a_node_that_is_ill_after_the_pause_fails_and_goes_back(after: dict[str, Any], why: str) -> None:
    found = judge_batch(asked(5), ["n1"], {"n1": confirmed()}, {"n1": after})
    assert found.facts["take_back"] == ["n1"]
    assert f"  {why}: 1 node (n1)" in found.lines


def judged(**gate: Any) -> tuple[bool, str]:
    found = judge_batch(asked(1), ["n1"], {"n1": confirmed()}, {"n1": look("nftables")}, **gate)
    return bool(found.facts["stop"]), "\n".join(found.lines)


def vector(*values: str) -> dict[str, Any]:
    rows = [{"metric": {}, "value": [1.8e9, value]} for value in values]
    return {"json": {"status": "success", "data": {"resultType": "vector", "result": rows}}}


@pytest.mark.parametrize(
    ("gate", "stop", "text"),
    [
        ({"command": {"rc": 0}}, False, ""),
        ({"command": {"skipped": True}, "answer": {"skipped": True}}, False, ""),
        ({"command": {"rc": 3, "stderr": "errors doubled\n"}}, True, "ended with status 3: errors doubled"),
        ({"command": {"msg": "No such file"}}, True, "kube_proxy_gate_command: No such file"),
        ({"answer": vector("0.5", "0.1")}, False, ""),
        ({"answer": vector("0.1", "0.6")}, True, "kube_proxy_gate_query gave 0.6, above 0.5"),
        ({"answer": vector("NaN")}, True, "gave nan, above 0.5"),
        ({"answer": vector()}, True, "kube_proxy_gate_query returned no value"),
        (
            {"answer": {"json": {"status": "error", "error": "parse error"}}},
            True,
            "did not respond to kube_proxy_gate_query: parse error",
        ),
        (
            {"answer": {"msg": "Connection refused"}},
            True,
            "did not respond to kube_proxy_gate_query: Connection refused",
        ),
    ],
)
def test_the_gate_of_the_operator(gate: dict[str, Any], stop: bool, text: str) -> None:
    found, lines = judged(**gate)
    assert found is stop
    assert text in lines


def test_a_scalar_is_an_answer_and_a_matrix_is_none() -> None:
    assert query_values({"data": {"resultType": "scalar", "result": [1, "2.5"]}}) == [2.5]
    assert query_values({"data": {"resultType": "matrix", "result": [{"values": [[1, "2"]]}]}}) == []
    assert query_values({"data": None}) == []


def test_a_rollback_takes_nothing_back() -> None:
    found = judge_batch(
        asked(2, mode=""), ["n1", "n2"], {"n1": confirmed(mode="ipvs"), "n2": BAD}, {"n1": look("ipvs")}
    )
    assert (found.facts["stop"], found.facts["take_back"], found.facts["kept"]) == (True, [], ["n1"])


def test_each_node_is_reported_with_its_times_the_failed_last() -> None:
    looks: Rows = {name: look() for name in names(8)} | {"n2": look("nftables")}
    run = Run(
        looks=looks,
        silent={"n8": "Connection timed out"},
        changing=["n1", "n3", "n4", "n5", "n6", "n7"],
        changed={
            "n1": confirmed(),
            "n3": BAD,
            "n4": {"unreachable": True, "msg": "no route"},
            "n5": confirmed(),
            "n6": confirmed(),
        },
        back={"n5": {"changed": True, "began": 1.8e9, "seconds": 30}, "n6": {"failed": True, "msg": "stuck"}},
        failed=["n3", "n4", "n5"],
    )
    found = outcome(asked(8), run)
    assert found.lines == (
        "n1  confirmed  ipvs -> nftables  2027-01-15T08:00:00Z, 97 s",
        "n2  unchanged  nftables",
        "n3  went back  2027-01-15T08:00:00Z, 60 s: 10 differences",
        "n4  unreachable: no route",
        "n5  taken back  2027-01-15T08:00:00Z, 30 s",
        "n6  not taken back: stuck",
        "n7  not begun",
        "n8  no answer: Connection timed out",
        "8 nodes: 1 confirmed, 1 unchanged, 1 went back, 1 unreachable, 1 taken back, 1 not taken back, 1 not begun, 1 no answer",
    )
    assert found.failure.startswith("6 of 8 nodes are not done:")


def test_a_node_that_keeps_leftovers_is_not_done() -> None:
    run = Run({"n1": look()}, {}, ["n1"], {"n1": confirmed()}, {}, [], cleaned={"n1": {"failed": True, "msg": "busy"}})
    found = outcome(asked(1), run)
    assert found.lines[0] == "n1  not cleaned up: busy"
    assert found.failure.startswith("1 of 1 nodes are not done")


def drains(connections: int, until: str = "2027-01-16T08:00:00Z") -> dict[str, Any]:
    return look("nftables", draining={"virtual_servers": 1, "connections": connections, "until": until})


@pytest.mark.parametrize(
    ("looked", "cleaned", "count"),
    [
        (look(), {"connections": {"cut": 0, "kept": 2, "until": "2027-01-16T08:00:00Z"}}, 2),
        (look(), {"connections": {"cut": 1, "kept": 0, "until": ""}}, 0),
        (drains(5), {"connections": {"cut": 0, "kept": 1, "until": ""}}, 1),
        (drains(5), {"skipped": True}, 5),
        (drains(5), None, 5),
        (drains(5, until="2027-01-15T07:59:59Z"), None, 0),
        (drains(0), None, 0),
        (look("nftables", draining=None), None, 0),
    ],
)
def test_connections_through_ipvs_keep_the_second_daemonset(
    looked: dict[str, Any], cleaned: Optional[dict[str, Any]], count: int
) -> None:
    run = Run({"n1": looked}, {}, [], {}, {}, [], cleaned={"n1": cleaned}, now="2027-01-15T08:00:00Z")
    draining = outcome(asked(1), run).facts["draining"]
    assert [line.split(" continue ")[0] for line in draining[:1]] == (
        [f"{count} connections through ipvs"] if count else []
    )
    assert outcome(asked(1, mode=""), run).facts["draining"] == [], "a rollback"


def test_check_mode_is_reported_as_such() -> None:
    run = Run({"n1": look()}, {}, ["n1"], {"n1": {"changed": True, "outcome": "unchanged"}}, {}, [])
    found = outcome(asked(1), run)
    assert (found.lines, found.failure) == (("n1  would change", "1 nodes: 1 would change"), "")


_RESULTS = st.sampled_from(["confirmed", "failed", "unreachable", "ill", "unchanged"])


@given(st.lists(_RESULTS, min_size=1, max_size=12), st.integers(0, 4), st.integers(0, 3))
def test_never_more_nodes_fail_than_max_fail_beyond_a_batch(results: list[str], most: int, before: int) -> None:
    """Every node of a batch keeps its mode, goes back, or failed; none is two of these, and the run goes on only within max_fail."""
    changed: dict[str, Any] = {}
    after: dict[str, Any] = {}
    batch = names(len(results))
    for host, result in zip(batch, results):
        changed[host] = {
            "confirmed": confirmed(),
            "ill": confirmed(),
            "failed": BAD,
            "unreachable": {"unreachable": True},
        }.get(result, {"changed": False, "mode": "nftables", "outcome": "unchanged"})
        after[host] = (
            look("nftables", in_order=result != "ill", reason="ill") if result in ("confirmed", "ill") else None
        )
    found = judge_batch(asked(20, max_fail=most), batch, changed, after, failed_before=[f"m{n}" for n in range(before)])
    failed, kept, back = (set(found.facts[name]) for name in ("failed_hosts", "kept", "take_back"))
    assert failed == {host for host, result in zip(batch, results) if result in ("failed", "unreachable", "ill")}
    assert found.facts["stop"] == (len(failed) + before > most)
    assert kept | failed | back == set(batch)
    assert not kept & (failed | back)
    moved = {host for host, result in zip(batch, results) if result in ("confirmed", "ill")}
    assert back == (moved if found.facts["stop"] else set())


def test_an_audit_groups_nodes_by_their_problem() -> None:
    left = {"kind": "chain", "target": "iptables IPv4 nat KUBE-SEP-* (8)", "fate": "removed", "why": "unused"}
    looks: dict[str, Any] = {name: look("nftables") for name in names(5)}
    looks["n2"] = look("nftables", residue=[left, {**left, "fate": "kept"}])
    looks["n3"] = look("nftables", residue=[{**left, "target": "iptables IPv4 nat KUBE-SEP-* (9)"}], armed=True)
    looks["n4"] = {"unreachable": True, "msg": "no route"}
    found = audit(looks)
    assert found.lines == (
        "nftables, healthy: 2 nodes (n[1,5])",
        "stale: chain iptables IPv4 nat KUBE-SEP-*: 2 nodes (n[2-3])",
        "a change waits for its confirmation: 1 node (n3)",
        "no response:  no route: 1 node (n4)",
    )
    assert found.failure.startswith("kube-proxy is not healthy on 3 nodes (n[2-4])")
    assert audit({"n1": look("ipvs")}).failure == ""


def test_a_clean_up_groups_what_goes_and_what_stays() -> None:
    link = {"kind": "link", "target": "kube-ipvs0", "fate": "removed", "why": "only ipvs needs it"}
    found = cleanup(
        asked(3, acts=False),
        {
            "n1": {"changed": True, "mode": "nftables", "artefacts": [link], "connections": {"cut": 0, "kept": 16}},
            "n2": {
                "changed": True,
                "mode": "nftables",
                "artefacts": [link, {**link, "target": "x", "fate": "kept", "why": "a"}],
            },
            "n3": {"changed": False, "mode": "nftables", "artefacts": []},
        },
    )
    assert found.lines == (
        "mode in use: nftables: 3 nodes (n[1-3])",
        "goes:  link kube-ipvs0 (only ipvs needs it): 2 nodes (n[1-2])",
        "stays: link x (a): 1 node (n2)",
        "open connections through ipvs that go on: 16 on 1 node (n1)",
        "no stale rules: 1 node (n3)",
        "this was a preview: nothing was changed",
        "  do:    read what would happen above, then run the same command again with -e kube_proxy_confirm=true",
    )
    assert found.facts["changing"] == []
