# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host keeps what its instances were made with: a run goes by it that has no more than that host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import InstancesRequest
from ansible_collections.ballast.kube.plugins.module_utils._instance.record import desired_over_record, read_options
from tests.unit.cases import apply, plan_of, require
from tests.unit.instance import given as g
from tests.unit.instance.kernel import HERE, Kernel

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = f"{g.STATE}/options.json"
TAINT = {"key": "example.org/dedicated", "value": "db", "effect": "NoSchedule"}
EVERYTHING = {
    "labels": {"zone": "a"},
    "taints": [TAINT],
    "startup_taints": [{**TAINT, "value": None}],
    "cpu": "1.5",
    "memory": "1Gi",
    "pids": 500,
    "proxy_backend": "iptables",
    "runtime": "crun",
}


def over_record(host: Kernel, **changes: Any) -> InstancesRequest:
    """As the module makes it of what the `_info` twin told, and without keys."""
    told = read_options(host, g.STATE)
    assert told is not None
    told["instances"] = [{**g.instance(0), **row} for row in told["instances"]]
    desired = desired_over_record({**g.params(0), "ca": None, "credentials": None, **told, **changes}, host)
    return replace(desired, at_boot=False)


def changed(host: Kernel, **changes: Any) -> list[dict[str, Any]]:
    """All instances, the last one otherwise."""
    *others, last = (read_options(host, g.STATE) or {})["instances"]
    return [{**g.instance(0), **row} for row in (*others, {**last, **changes})]


def test_an_exercise_of_readiness_gives_every_recorded_option() -> None:
    """One that it left out would be another value than the recorded one, and nothing would be exercised."""
    host = g.machine()
    apply(ENGINE, g.desired(1), host)
    recorded = read_options(host, g.STATE)
    assert recorded
    text = (ROOT / "roles/readiness/tasks/exercises/kubelet_instance.yml").read_text(encoding="utf-8")
    given = yaml.safe_load(text)[0]["ballast.kube.kubelet_instance"]
    assert set(recorded) <= set(given)


def test_what_is_recorded_is_all_that_a_run_needs_to_change_nothing(host: Kernel) -> None:
    assert read_options(host, g.STATE) is None
    rows = [g.instance(1, **EVERYTHING), g.instance(2)]
    mirrors = {"docker.io": ["https://mirror.example"]}
    apply(ENGINE, g.desired(2, instances=rows, certs_dir="/srv/certs.d", registry_mirrors=mirrors), host)
    wanted = over_record(host)
    assert plan_of(ENGINE, wanted, host).steps == ()
    require(ENGINE, wanted, host)
    assert not any("key" in name.lower() for name in read_options(host, g.STATE) or {})
    apply(ENGINE, g.desired(state="absent"), host)
    assert read_options(host, g.STATE) is None


def test_proxies_stay_until_others_or_none_are_given(host: Kernel) -> None:
    given = {"http": "http://me:word@10.0.0.1:3128", "https": None, "no_proxy": ["a", "b"]}
    apply(ENGINE, g.desired(1, proxies=given), host)
    assert plan_of(ENGINE, over_record(host), host).steps == ()
    assert "word" not in str(read_options(host, g.STATE))
    assert over_record(host, proxies=dict.fromkeys(given)).proxies == ()


def test_keys_that_are_given_are_taken_and_a_new_instance_has_none(host: Kernel) -> None:
    apply(ENGINE, g.desired(), host)
    given = desired_over_record(g.params(1, credentials=[]), host)
    with pytest.raises(BallastError) as caught:
        require(ENGINE, given, host)
    assert caught.value.id == "instance-no-credentials"
    more = over_record(host, instances=[g.instance(1), g.instance(2)])
    with pytest.raises(BallastError) as caught:
        require(ENGINE, more, host)
    assert "n2" in caught.value.text


def test_one_instance_is_stopped_and_started_again_and_no_other_is_touched(host: Kernel) -> None:
    apply(ENGINE, g.desired(2), host)
    before = read_options(host, g.STATE)
    files = {
        path: host.text(path) for path in host.paths(f"{g.STATE}/n2") if path.endswith((".key", ".toml", "meta.db"))
    }
    kept = {path: text for path, text in files.items() if "/sv/" not in path}
    pids = processes(host, "lab-n1-")

    stopped = over_record(host, instances=changed(host, stopped=True))
    plan = apply(ENGINE, stopped, host)
    assert {step.group for step in plan.steps if step.target != OPTIONS} == {"node n2"}
    assert processes(host, "lab-n2-") == {}
    assert set(host.namespaces) == {HERE, "ballast-lab-n1"}
    assert list(host.namespaces[HERE].routes) == ["10.128.1.0/24"]
    assert {path: host.text(path) for path in kept} == kept
    assert plan_of(ENGINE, over_record(host), host).steps == (), "it stays stopped"

    started = over_record(host, instances=changed(host, stopped=False))
    apply(ENGINE, started, host)
    assert read_options(host, g.STATE) == before
    assert len(processes(host, "lab-n2-")) == 3
    assert processes(host, "lab-n1-") == pids


def test_a_limit_is_changed_and_changed_back(host: Kernel) -> None:
    apply(ENGINE, g.desired(2), host)
    before, pids = read_options(host, g.STATE), processes(host, "lab-")
    apply(ENGINE, over_record(host, instances=changed(host, pids=100_000)), host)
    assert (read_options(host, g.STATE) or {})["instances"][-1]["pids"] == 100_000
    apply(ENGINE, over_record(host, instances=changed(host, pids=None)), host)
    assert read_options(host, g.STATE) == before
    assert processes(host, "lab-") == pids


def test_a_kube_proxy_that_was_migrated_stays_so_until_that_is_taken_back(host: Kernel) -> None:
    apply(ENGINE, g.desired(2), host)
    path, journal = f"{g.STATE}/n2/etc/kube-proxy.json", f"{g.STATE}/n2/kube-proxy/ledger.jsonl"
    own, pids = host.text(path), processes(host, "lab-")
    migrated = own.replace("nftables", "iptables")
    host.given(path, migrated)
    host.given(journal, '{"op": "recorded"}\n')
    assert plan_of(ENGINE, over_record(host), host).steps == ()
    apply(ENGINE, over_record(host, instances=changed(host, pids=100_000)), host)
    assert (host.text(path), processes(host, "lab-")) == (migrated, pids)
    assert proxy_modes(host) == ["nftables", "iptables"]

    host.given(journal, "")
    apply(ENGINE, over_record(host), host)
    assert (host.text(path), processes(host, "lab-")) == (own, pids)
    assert proxy_modes(host) == ["nftables", "nftables"]


def proxy_modes(host: Kernel) -> list[str]:
    report: Any = ENGINE.report(Context(over_record(host), host))
    return [row["proxy_backend"] for row in report["instances"]]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mode": 1}', '{"mode": ""}'])
def test_of_a_file_that_says_no_mode_the_one_that_was_asked_for_is_told(text: str) -> None:
    machine = g.machine(cgroups=2)
    apply(ENGINE, g.desired(1, instances=[g.instance(1, proxy_backend="ipvs")]), machine)
    machine.given(f"{g.STATE}/n1/etc/kube-proxy.json", text)
    assert proxy_modes(machine) == ["ipvs"]


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_file_that_is_none_of_ours_holds_no_options(text: str) -> None:
    host = g.machine()
    host.given(OPTIONS, text)
    assert read_options(host, g.STATE) is None


def processes(host: Kernel, part: str) -> dict[str, int]:
    return {process.argv[0]: pid for pid, process in host.processes.items() if part in process.argv[0]}
