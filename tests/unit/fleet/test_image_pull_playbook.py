# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator sees of the playbook image_pull_proxy: real runs of ansible-playbook on machines and kubelets that a file describes."""

from __future__ import annotations

from typing import Any

from tests.unit.fleet.shadow import Fleet

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
