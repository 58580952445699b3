# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator sees of the playbooks that change fleets: real runs of ansible-playbook on nodes that a file describes."""

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


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


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


STEPS = {"changed": True, "steps": [{"verb": "make", "title": "drop-in"}], "seconds": {"apply": 11.4, "verify": 0.4}}
RUNS = {"kubelet": {"running": True}}


def pulling(count: int) -> dict[str, dict[str, Any]]:
    """Ordinary nodes without a pull proxy."""
    answers = {
        "image_pull_proxy_info": {"status": None},
        "image_pull_proxy_info after": {"status": {"max_in_flight": 4}},
        "image_pull_proxy": STEPS,
        "image_pulls": STEPS,
        "image_pulls_info": RUNS,
    }
    return {f"w{number}": dict(answers) for number in range(1, count + 1)}


WITH_PROXY = {"image_pull_proxy_hosts": "all", "image_pull_proxy_max_in_flight": 4}


def test_image_pulls_are_previewed(fleet: Fleet) -> None:
    """Two instances of one machine, and an ordinary node."""
    hosts: dict[str, dict[str, Any]] = {
        "m1": {
            "image_pull_proxy_info": {"status": None, "missing_packages": ["python3-hpack"]},
            "image_pull_proxy": STEPS,
        },
        "n1": {"vars": {"ballast_host": "m1"}, "image_pulls": STEPS},
        "n2": {"vars": {"ballast_host": "m1"}, "image_pulls": STEPS},
        "w1": {"image_pull_proxy_info": {"status": {"max_in_flight": 4}}, "image_pulls": {"steps": []}},
    }
    done = fleet.run("image_pull_proxy", hosts=hosts, variables=WITH_PROXY)
    assert done.status == 0, done.output
    assert done.lines_of("Say what would happen") == [
        "machines: no pull proxy -> limit 4: 1 node (m1)",
        "machines: limit 4 stays: 1 node (w1)",
        "machines: needs python3-hpack: 1 node (m1)",
        "kubelets: make drop-in, restart the kubelet: 2 nodes (n[1-2])",
        "kubelets: no change: 1 node (w1)",
        "batches of machines: 1; the run ends when more than 0 nodes fail",
        "batches of kubelets: 1 (2 times); the run ends when more than 0 nodes fail",
        "this was a preview: nothing was changed",
        "  do:    read what would happen above, then run the same command again with -e image_pull_proxy_confirm=true",
    ]
    assert all(options["become"] for _host, _name, options in fleet.calls())
    for module in ("image_pulls", "image_pull_proxy"):
        assert all(options["check"] for _host, _name, options in fleet.calls(module))
    done = fleet.run(
        "image_pull_proxy", hosts=hosts, variables={"image_pull_proxy_hosts": "n1", "image_pull_proxy_state": "absent"}
    )
    assert "image_pull_proxy_hosts omits n2, which use the same pull proxy" in done.output


def test_image_pulls_go_in_batches_to_the_one_that_fails(fleet: Fleet) -> None:
    hosts = pulling(5)
    hosts["w1"].update({name: {"changed": False, "steps": []} for name in ("image_pull_proxy", "image_pulls")})
    hosts["w3"]["image_pulls"] = {**STEPS, "acting": {"failed": True, "msg": "the kubelet is not healthy\n  do: look"}}
    gate = fleet.directory / "gate"
    variables = {
        **WITH_PROXY,
        "image_pull_proxy_confirm": True,
        "image_pull_proxy_serial": [1, 2],
        "image_pull_proxy_canaries": "w2",
        "image_pull_proxy_gate_command": ["sh", "-c", f"echo asked >> {gate}"],
    }
    done = fleet.run("image_pull_proxy", hosts=hosts, variables=variables)
    assert done.status != 0
    assert done.lines_of("Show the outcome of each node") == [
        "w1  unchanged",
        "w2  changed  12 s",
        "w4  changed  12 s",
        "w3  failed  the kubelet: the kubelet is not healthy",
        "w5  not begun",
        "5 nodes: 1 unchanged, 2 changed, 1 failed, 1 not begun",
    ]
    acting = [(host, name) for host, name, options in fleet.calls() if not options["check"] and "_info" not in name]
    proxies = [host for host, name in acting if name == "image_pull_proxy"]
    assert (proxies[0], sorted(proxies)) == ("w2", ["w2", "w3", "w4", "w5"])
    kubelets = [host for host, name in acting if name == "image_pulls"]
    assert (kubelets[0], sorted(kubelets)) == ("w2", ["w2", "w3", "w4"])
    assert gate.read_text() == "asked\n" * 5, "after each of 3 batches of proxies and 2 of kubelets"


def test_a_proxy_that_is_gone_after_the_pause_ends_the_run_before_its_kubelet(fleet: Fleet) -> None:
    hosts = pulling(2)
    hosts["w1"]["image_pull_proxy_info after"] = {"status": None}
    done = fleet.run("image_pull_proxy", hosts=hosts, variables={**WITH_PROXY, "image_pull_proxy_confirm": True})
    assert done.status != 0
    assert "after the change: the pull proxy does not respond: 1 node (w1)" in done.output
    assert done.lines_of("Show the outcome of each node")[:2] == [
        "w1  failed after the change  the pull proxy of w1",
        "w2  not begun",
    ]
    assert all(options["check"] for _host, _name, options in fleet.calls("image_pulls"))
    (fleet.directory / "calls.jsonl").unlink()
    variables = {**WITH_PROXY, "image_pull_proxy_confirm": True, "image_pull_proxy_max_fail": "50%"}
    done = fleet.run("image_pull_proxy", hosts=hosts, variables=variables)
    assert done.status != 0, "a node is not done"
    acting = [host for host, _name, options in fleet.calls("image_pulls") if not options["check"]]
    assert acting == ["w2"]


def test_proxies_go_after_their_kubelets_were_pointed_back(fleet: Fleet) -> None:
    hosts = pulling(3)
    hosts["w2"]["image_pulls"] = {**STEPS, "acting": {"failed": True, "msg": "no"}}
    done = fleet.run(
        "image_pull_proxy",
        hosts=hosts,
        variables={
            "image_pull_proxy_hosts": "all",
            "image_pull_proxy_state": "absent",
            "image_pull_proxy_confirm": True,
            "image_pull_proxy_max_fail": 1,
        },
    )
    assert done.status != 0
    acting = [(host, name) for host, name, options in fleet.calls() if not options["check"] and "_info" not in name]
    assert [host for host, name in acting if name == "image_pull_proxy"] == ["w1", "w3"]
    assert {name for _host, name in acting[:3]} == {"image_pulls"}
    assert done.lines_of("Show the outcome of each node")[-2:] == [
        "w2  failed  the kubelet: no",
        "3 nodes: 2 changed, 1 failed",
    ]


PLAN = {
    "changed": True,
    "steps": [{"verb": "make", "title": "DaemonSet"}],
    "shared": [
        {"host": "b1", "nodes": ["n1", "two"], "behind": ["n1", "two"]},
        {"host": "b2", "nodes": ["n3"], "behind": ["n3"]},
        {"host": "b3", "nodes": ["n4"], "behind": []},
    ],
}


def sized(*names: str, **more: Any) -> dict[str, Any]:
    size = {"outcome": "done", "before": {"cpu": "1m", "memory": "16Mi"}, "after": {"cpu": "2", "memory": "4Gi"}}
    return {"nodes": [{"name": name, "host": "b1", **size} for name in names], "seconds": {"apply": 3.0}, **more}


def test_balloons_are_previewed_and_sized_from_here(fleet: Fleet) -> None:
    hosts: dict[str, dict[str, Any]] = {
        "n1": {"vars": {"balloons_target": {"cpu": "{{ 1 + 0 }}500m", "memory": "4Gi"}}},
        "n2": {"vars": {"balloons_weight": 2, "balloons_node_name": "two"}},
        "n3": {},
        "n4": {},
        "localhost": {"balloon": PLAN},
    }
    variables = {"balloons_hosts": "all:!localhost", "balloons_kubeconfig": "/a"}
    done = fleet.run("balloons", hosts=hosts, variables=variables)
    assert done.status == 0, done.output
    assert done.lines_of("Say what would happen")[:3] == [
        "make DaemonSet",
        "batches: 2, 1; the run ends when more than 0 nodes fail",
        "this was a preview: nothing was changed",
    ]
    ((_host, _name, options),) = fleet.calls("balloon")
    assert options["nodes"] == [
        {"name": "n1", "target": {"cpu": "1500m", "memory": "4Gi"}},
        {"name": "two", "weight": 2},
        {"name": "n3"},
        {"name": "n4"},
    ]
    assert (options["check"], options["become"]) == (True, False)
    (fleet.directory / "calls.jsonl").unlink()
    hosts["n1"]["balloon"] = sized("n1", "two")
    hosts["n3"]["balloon"] = {"failed": True, "msg": "balloon-no-room"}
    done = fleet.run("balloons", hosts=hosts, variables={**variables, "balloons_confirm": True})
    assert done.status != 0
    assert done.lines_of("Show the outcome of each node") == [
        "n1  sized  balloon 1m 16Mi -> 2 4Gi  3 s",
        "n2  sized  balloon 1m 16Mi -> 2 4Gi  3 s",
        "n4  unchanged",
        "n3  failed: balloon-no-room",
        "4 nodes: 2 sized, 1 failed, 1 unchanged",
    ]
    acting = [(host, options) for host, _name, options in fleet.calls("balloon") if not options["check"]]
    assert [(host, [row["name"] for row in options["nodes"]]) for host, options in acting] == [
        ("n1", ["n1", "two"]),
        ("n3", ["n3"]),
    ]
    assert {(options["kubeconfig"], options["become"]) for _host, options in acting} == {("/a", False)}
    assert [options["nodes"] for _host, _name, options in fleet.calls("balloon_info")][0] == acting[0][1]["nodes"]


def test_slices_are_moved_on_the_machine_that_has_them(fleet: Fleet) -> None:
    shared = [{"host": "b1", "nodes": ["n1", "n2"], "behind": ["n2"]}]
    of_machine = {"balloons_kubeconfig": "/on/machine", "balloons_reserve": {"cpu": "1"}}
    hosts: dict[str, dict[str, Any]] = {
        "m1": {"vars": of_machine, "balloon": {**PLAN, "shared": shared}},
        "n1": {"vars": {"ballast_host": "m1", "balloons_slice": "a"}},
        "n2": {"vars": {"ballast_host": "m1", "balloons_slice": "b"}, "balloon": sized("n1", "n2")},
    }
    variables = {"balloons_hosts": "n1,n2", "balloons_slices": True, "balloons_confirm": True}
    done = fleet.run("balloons", hosts=hosts, variables=variables)
    assert done.status == 0, done.output
    assert "n2 -> m1" in done.output, "the leader's task runs on the machine"
    (acting,) = [options for _host, _name, options in fleet.calls("balloon") if not options["check"]]
    assert [row["slice"] for row in acting["nodes"]] == ["a", "b"]
    assert (acting["become"], acting["kubeconfig"], acting["reserve"]["cpu"]) == (True, "/on/machine", "1")
    assert done.lines_of("Show the outcome of each node")[-1] == "2 nodes: 1 unchanged, 1 sized"


def test_balloons_that_cannot_be_planned_are_refused(fleet: Fleet) -> None:
    hosts: dict[str, dict[str, Any]] = {"n1": {}, "localhost": {"balloon": {"failed": True, "msg": "balloon-no-room"}}}
    variables = {"balloons_hosts": "n1", "balloons_kubeconfig": "/a", "balloons_confirm": True}
    done = fleet.run("balloons", hosts=hosts, variables=variables)
    assert done.status != 0
    assert done.lines_of("Say what would happen") == ["no response:  balloon-no-room: 1 node (n1)"]
    assert len(fleet.calls("balloon")) == 1
    done = fleet.run("balloons", "--limit", "n1", hosts=hosts, variables=variables)
    assert "--limit leaves out localhost" in done.output


def test_a_misspelt_variable_of_a_lab_is_refused(fleet: Fleet) -> None:
    done = fleet.run("lab_status", hosts={}, variables={"lab_dri": str(fleet.directory), "lab_user_id": 0})
    assert done.status != 0
    assert "did you mean lab_dir?" in done.output
