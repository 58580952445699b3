# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator sees of the playbooks that change kube-proxy in fleets: real runs of ansible-playbook on nodes that a file describes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.unit.fleet.shadow import Fleet

TO_NFTABLES = {"kube_proxy_hosts": "all", "kube_proxy_mode": "nftables"}


def look(mode: str = "ipvs", **more: Any) -> dict[str, Any]:
    return {
        "mode": mode,
        "version": "v1.37.1",
        "node_name": "n",
        "previous_mode": None,
        "armed": False,
        "bridged": False,
        "in_order": True,
        "reason": "",
        "residue": [],
        "preflight": [],
        "differences": [],
        **more,
    }


def confirmed(mode: str = "nftables", **more: Any) -> dict[str, Any]:
    return {"changed": True, "mode": mode, "outcome": "confirmed", "reasons": [], "began": 1.8e9, "seconds": 97, **more}


def nodes(count: int) -> dict[str, dict[str, Any]]:
    return {
        f"n{number}": {
            "kube_proxy_info": look(),
            "kube_proxy_info after": look("nftables"),
            "kube_proxy_change": confirmed(),
            "kube_proxy_cleanup": {},
        }
        for number in range(1, count + 1)
    }


def test_a_preview_changes_nothing_and_ends_well(fleet: Fleet, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    done = fleet.run("kube_proxy_migrate", hosts=nodes(3), variables={**TO_NFTABLES, "kube_proxy_plan_file": str(plan)})
    assert done.status == 0, done.output
    assert done.lines_of("Say what would happen") == [
        "ipvs -> nftables: 3 nodes (n[1-3])",
        "batches: 1, 2; the run ends when more than 0 nodes fail",
        "this was a preview: nothing was changed",
        "  do:    read what would happen above, then run the same command again with -e kube_proxy_confirm=true",
    ]
    assert {(name, options["become"]) for _host, name, options in fleet.calls()} == {("kube_proxy_info", True)}
    assert plan.stat().st_mode & 0o777 == 0o600
    assert json.loads(plan.read_text())["batches"] == [["n1"], ["n2", "n3"]]


def test_problems_end_the_run_before_a_node_is_asked(fleet: Fleet) -> None:
    hosts = {"n1": {"vars": {"kube_proxy_deployment": "{{ 'daemon' ~ 'set' }}", "kube_proxy_servce": "kube-proxy"}}}
    done = fleet.run("kube_proxy_migrate", hosts=hosts, variables={**TO_NFTABLES, "kube_proxy_canarys": "n1"})
    assert done.status != 0
    for text in ("kube_proxy_servce is not", "kube_proxy_canarys is not", "kube_proxy_admin_kubeconfig is not set"):
        assert text in done.output
    assert fleet.calls() == []


def test_a_run_in_batches_stops_takes_back_and_reports(fleet: Fleet) -> None:
    hosts = nodes(5)
    hosts["n1"]["kube_proxy_info"] = look("nftables")
    hosts["n3"]["kube_proxy_change"] = {"failed": True, "msg": "10 differences", "outcome": "went_back"}
    hosts["n3"]["kube_proxy_info after"] = look()
    gate = fleet.directory / "gate"
    done = fleet.run(
        "kube_proxy_migrate",
        hosts=hosts,
        variables={
            **TO_NFTABLES,
            "kube_proxy_confirm": True,
            "kube_proxy_serial": [1, 2],
            "kube_proxy_drain_seconds": 7,
            "kube_proxy_gate_command": ["sh", "-c", f"echo asked >> {gate}"],
        },
    )
    assert done.status != 0
    assert done.lines_of("Show the outcome of each node") == [
        "n1  unchanged  nftables",
        "n2  confirmed  ipvs -> nftables  2027-01-15T08:00:00Z, 97 s",
        "n3  went back: 10 differences",
        "n4  taken back  2027-01-15T08:00:00Z, 97 s",
        "n5  not begun",
        "5 nodes: 1 unchanged, 1 confirmed, 1 went back, 1 taken back, 1 not begun",
    ]
    changes = [(host, options["state"]) for host, _name, options in fleet.calls("kube_proxy_change")]
    assert changes[0] == ("n2", "present")
    assert set(changes[1:3]) == {("n3", "present"), ("n4", "present")}
    assert changes[3:] == [("n4", "previous")]
    assert {options["drain_seconds"] for _host, _name, options in fleet.calls("kube_proxy_change")} == {7}
    assert [host for host, _name, _options in fleet.calls("kube_proxy_cleanup")] == ["n2"]
    assert gate.read_text() == "asked\nasked\n", "once for each batch"


@contextmanager
def prometheus(*values: str) -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """Its URL, and the questions that it was asked; the last value is repeated."""
    asked: list[dict[str, list[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            row = {"metric": {}, "value": [1.8e9, values[min(len(asked), len(values)) - 1]]}
            answer = {"status": "success", "data": {"resultType": "vector", "result": [row]}}
            self.send_response(200 if self.path == "/api/v1/query" else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_prometheus_closes_the_gate(fleet: Fleet) -> None:
    with prometheus("0.1", "0.7") as (url, asked):
        gate = {
            "kube_proxy_gate_prometheus": url,
            "kube_proxy_gate_query": 'sum(rate(errors{job="web"}[5m]))',
            "kube_proxy_gate_threshold": 0.5,
            "kube_proxy_pause": 1,
        }
        done = fleet.run(
            "kube_proxy_migrate",
            hosts=nodes(3),
            variables={**TO_NFTABLES, **gate, "kube_proxy_confirm": True, "kube_proxy_serial": 1},
        )
    assert done.status != 0
    assert asked == [{"query": ['sum(rate(errors{job="web"}[5m]))']}] * 2
    assert "kube_proxy_gate_query gave 0.7, above 0.5" in done.output
    report = done.lines_of("Show the outcome of each node")
    assert [line.split()[1:3] for line in report[:3]] == [["confirmed", "ipvs"], ["taken", "back"], ["not", "begun"]]


def test_unreachable_nodes_do_not_end_the_report(fleet: Fleet) -> None:
    hosts = nodes(3)
    hosts["n2"]["kube_proxy_change"] = {"lost": "no route to host"}
    hosts["n3"]["kube_proxy_info"] = {"lost": "Connection timed out"}
    done = fleet.run(
        "kube_proxy_migrate",
        hosts=hosts,
        variables={**TO_NFTABLES, "kube_proxy_confirm": True, "kube_proxy_max_fail": 2},
    )
    assert done.status != 0
    report = done.lines_of("Show the outcome of each node")
    assert report[0].startswith("n1  confirmed")
    assert report[1].startswith("n2  unreachable: ")
    assert "no route to host" in report[1]
    assert report[2].startswith("n3  no answer: ")
    assert report[3] == "3 nodes: 1 confirmed, 1 unreachable, 1 no answer"


def test_a_failed_clean_up_does_not_end_the_report(fleet: Fleet) -> None:
    hosts = nodes(2)
    hosts["n1"]["kube_proxy_cleanup"] = {"failed": True, "msg": "a chain is in use"}
    done = fleet.run("kube_proxy_migrate", hosts=hosts, variables={**TO_NFTABLES, "kube_proxy_confirm": True})
    assert done.status != 0
    assert done.lines_of("Show the outcome of each node")[-2:] == [
        "n1  not cleaned up: a chain is in use",
        "2 nodes: 1 not cleaned up, 1 confirmed",
    ]


def test_a_daemonset_is_finished_when_all_nodes_are_done(fleet: Fleet) -> None:
    variables = {
        **TO_NFTABLES,
        "kube_proxy_deployment": "daemonset",
        "kube_proxy_admin_kubeconfig": "/a",
        "kube_proxy_confirm": True,
    }
    done = fleet.run(
        "kube_proxy_migrate", hosts={**nodes(1), "localhost": {}}, variables={**variables, "kube_proxy_hosts": "n1"}
    )
    assert done.status == 0, done.output
    asked = [(name, options.get("state"), options["check"]) for _host, name, options in fleet.calls()]
    daemonset, last = "kube_proxy_daemonset", len(asked) - 1
    assert [row for row in asked if row[0] == daemonset] == [
        (daemonset, None, True),
        (daemonset, None, False),
        (daemonset, "final", False),
    ]
    assert asked.index((daemonset, None, True)) == 0, "before a node is asked"
    assert asked.index((daemonset, "final", False)) == last


@pytest.mark.parametrize("cut", [False, True])
def test_a_daemonset_is_not_finished_while_connections_through_ipvs_go_on(fleet: Fleet, *, cut: bool) -> None:
    """The start of kube-proxy in mode nftables removes their virtual servers."""
    hosts: dict[str, dict[str, Any]] = {**nodes(1), "localhost": {}}
    hosts["n1"]["kube_proxy_cleanup"] = {"changed": True, "connections": {"cut": 0, "kept": 2, "until": ""}}
    variables = {
        **TO_NFTABLES,
        "kube_proxy_deployment": "daemonset",
        "kube_proxy_admin_kubeconfig": "/a",
        "kube_proxy_confirm": True,
        "kube_proxy_hosts": "n1",
        **({"kube_proxy_cut_connections": True} if cut else {}),
    }
    done = fleet.run("kube_proxy_migrate", hosts=hosts, variables=variables)
    assert done.status == 0, done.output
    states = [options.get("state") for _host, _name, options in fleet.calls("kube_proxy_daemonset")]
    assert states == [None, None, *(["final"] if cut else [])]
    assert ("2 connections through ipvs continue on 1 node (n1)" in done.output) is not cut


def test_a_rollback_is_one_command(fleet: Fleet) -> None:
    """Where a DaemonSet runs kube-proxy: the mode is the one of the record."""
    hosts: dict[str, dict[str, Any]] = nodes(2)
    for row in hosts.values():
        row["kube_proxy_info"] = look("nftables", previous_mode="ipvs")
        row["kube_proxy_change"] = confirmed("ipvs")
        row["kube_proxy_info after"] = look("ipvs")
        row["vars"] = {"kube_proxy_deployment": "daemonset", "kube_proxy_admin_kubeconfig": "/a"}
    hosts["localhost"] = {"kube_proxy_daemonset": {"canary": ""}}
    done = fleet.run("kube_proxy_rollback", hosts=hosts, variables={"kube_proxy_hosts": "all:!localhost"})
    assert done.status == 0, done.output
    assert [options["state"] for _host, _name, options in fleet.calls("kube_proxy_change")] == ["previous", "previous"]
    modes = [(options["mode"], options.get("state")) for _host, _name, options in fleet.calls("kube_proxy_daemonset")]
    assert modes == [("ipvs", None), ("nftables", "absent")]
    (fleet.directory / "calls.jsonl").unlink()
    hosts["localhost"] = {"kube_proxy_daemonset": {"canary": "kube-proxy-ipvs"}}
    done = fleet.run("kube_proxy_rollback", hosts=hosts, variables={"kube_proxy_hosts": "all:!localhost"})
    assert done.status == 0, done.output
    changes = [(options["state"], options["mode"]) for _host, _name, options in fleet.calls("kube_proxy_change")]
    assert changes == [("present", "ipvs")] * 2, "after the DaemonSets were made one again"
    accepted = [options["acknowledge"] for _host, _name, options in fleet.calls("kube_proxy_change")]
    assert accepted == [["preflight-ipvs-deprecated"]] * 2, "nobody has to accept what a node has been"
    assert fleet.calls("kube_proxy_daemonset")[-1][2]["state"] == "final"


def test_check_mode_goes_through_all_batches(fleet: Fleet) -> None:
    hosts = nodes(2)
    for row in hosts.values():
        row["kube_proxy_change"] = {"changed": True, "outcome": "unchanged", "mode": "ipvs"}
    done = fleet.run("kube_proxy_migrate", "--check", hosts=hosts, variables=TO_NFTABLES)
    assert done.status == 0, done.output
    assert done.lines_of("Show the outcome of each node")[-1] == "2 nodes: 2 would change"
    assert all(options["check"] for _host, name, options in fleet.calls("kube_proxy_change"))


def test_a_limit_without_localhost_is_refused(fleet: Fleet) -> None:
    done = fleet.run("kube_proxy_migrate", "--limit", "n1", hosts=nodes(2), variables=TO_NFTABLES)
    assert done.status != 0
    assert "--limit leaves out localhost" in done.output
    assert fleet.calls() == []


def test_an_audit_fails_where_a_node_has_a_problem(fleet: Fleet) -> None:
    hosts = nodes(2)
    hosts["n2"]["kube_proxy_info"] = look("nftables", differences=["a rule is missing"])
    done = fleet.run("kube_proxy_audit", hosts=hosts, variables={"kube_proxy_hosts": "all"})
    assert done.status != 0
    assert done.lines_of("Say what was found") == ["ipvs, healthy: 1 node (n1)", "a rule is missing: 1 node (n2)"]


def test_a_clean_up_is_previewed_and_then_done_where_there_is_something(fleet: Fleet) -> None:
    hosts = nodes(2)
    left = {"kind": "link", "target": "kube-ipvs0", "fate": "removed", "why": "of ipvs"}
    hosts["n1"]["kube_proxy_cleanup"] = {"changed": True, "mode": "nftables", "artefacts": [left]}
    hosts["n2"]["kube_proxy_cleanup"] = {"mode": "nftables", "artefacts": []}
    done = fleet.run("kube_proxy_cleanup", hosts=hosts, variables={"kube_proxy_hosts": "all"})
    assert done.status == 0, done.output
    assert "goes:  link kube-ipvs0 (of ipvs): 1 node (n1)" in done.lines_of("Report what is removed and what is kept")
    done = fleet.run(
        "kube_proxy_cleanup", hosts=hosts, variables={"kube_proxy_hosts": "all", "kube_proxy_confirm": True}
    )
    assert done.status == 0, done.output
    assert [host for host, _name, options in fleet.calls("kube_proxy_cleanup") if not options["check"]] == ["n1"]
