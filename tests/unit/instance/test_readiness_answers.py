# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host answers to the production readiness questionnaire about its instances, from a whole machine in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import MEASURED, NO, UNKNOWN, YES
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._instance import readiness_answers as r
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.info import read_params
from tests.unit.cases import apply
from tests.unit.fakes import FakeHost, Killed, json_answer
from tests.unit.instance import given as g
from tests.unit.instance.kernel import Kernel
from tests.unit.readings import BY_NAME, completed

UID = "0a1b2c3d-0000-1111-2222-333344445555"
MACHINES = {"cgroup v1": 1, "cgroup v2": 2}


def machine(count: int = 2, *, cgroups: int = 2, systemd: bool = False, **changes: Any) -> Kernel:
    """With instances that are well, of which the first has a pod."""
    host = g.machine(cgroups=cgroups, systemd=systemd)
    apply(ENGINE, g.desired(count, **changes), host)
    g.answer_ready(host, count)
    host.given("/proc/meminfo", "MemTotal:  1000000 kB\nMemFree: 1 kB\nMemAvailable:  400000 kB\nHugePages_Total: 0\n")
    host.given("/proc/loadavg", "0.10 0.20 0.30 2/417 12345\n")
    host.given_sysctl("kernel.pid_max", 4194304)
    host.given_sysctl("kernel.threads-max", 9000)
    host.given_directory(f"{g.STATE}/n1/kubelet/pods/{UID}")
    return host


def reading(host: FakeHost, count: int = 2, **changes: Any) -> dict[str, Any]:
    """With the options that a lab has for its `_info` module."""
    unknown = {"bridge": None, "cluster_cidr": None, "bin_dir": None, "kubernetes_version": None, "ca": None}
    options = g.params(count, **{**unknown, "credentials": None, "archives": None, **changes})
    before = len(host.effects)
    told: Any = read_params(host, {**options, "readiness": True})
    assert host.effects[before:] == [], "a reading changes nothing"
    assert json.loads(json.dumps(told, allow_nan=False)) is not None
    return completed(told["readiness"])


def verdicts(found: Mapping[str, Any]) -> dict[str, str]:
    return {name: answer["verdict"] for name, answer in found["answers"].items()}


def figures(found: Mapping[str, Any], answer: str) -> dict[str, tuple[object, object]]:
    return {one["name"]: (one["value"], one["limit"]) for one in found["answers"][answer]["figures"]}


def lines(found: Mapping[str, Any], answer: str = "failures") -> tuple[str, ...]:
    told: tuple[str, ...] = found["answers"][answer]["lines"]
    return told


@pytest.mark.parametrize(("cgroups", "systemd"), [(1, False), (2, False), (2, True)])
def test_instances_that_are_well_answer_every_question(cgroups: int, systemd: bool) -> None:
    found = reading(machine(cgroups=cgroups, systemd=systemd))
    assert verdicts(found) == dict.fromkeys(MEASURED, YES)
    assert (found["feature"], found["present"]) == ("node_instances", ())
    assert found["versions"] == {"kubelet": "v1.37.1+lab", "container runtime": "containerd://2.3.7"}
    assert figures(found, "in_use") == {"pods of n1": (1, None), "pods of n2": (0, None)}
    assert figures(found, "scale")["memory of the host in use"] == (600000 * 1024, 1000000 * 1024)
    assert figures(found, "scale")["processes and threads of the host"] == (417, 9000)
    assert figures(found, "healthy")["instances that are Ready"] == (2, None)


def test_nothing_is_asked_for_that_was_not_asked_for() -> None:
    host = machine()
    told = read_params(host, {**g.params(2), "readiness": False})
    assert set(told) == {"instances", "options"}


def test_a_host_without_instances_has_the_feature_off_whatever_is_asked_for() -> None:
    assert verdicts(reading(g.machine())) == {"enabled": NO}
    assert verdicts(reading(g.machine(), instances=None)) == {"enabled": NO}


def test_one_whose_instances_are_stopped_has_it_off_and_says_so() -> None:
    host = machine()
    apply(ENGINE, g.desired(state="stopped", instances=None), host)
    found = reading(host)
    assert verdicts(found) == {"enabled": NO}
    assert "are stopped" in found["answers"]["enabled"]["text"]


def test_an_instance_that_is_to_be_stopped_is_no_failure() -> None:
    host, rows = machine(), [g.instance(1), g.instance(2, stopped=True)]
    apply(ENGINE, g.desired(2, instances=rows), host)
    found = reading(host, instances=rows)
    assert verdicts(found) == dict.fromkeys(MEASURED, YES)
    assert figures(found, "healthy")["instances that are Ready"] == (1, None)
    assert reading(host)["present"] == ("node-kubelet-down", "node-runtime-down")


def test_one_that_nobody_names_is_unknown_and_never_well() -> None:
    found = reading(machine(3))
    assert verdicts(found) == {
        **dict.fromkeys(MEASURED, YES),
        **dict.fromkeys(("healthy", "dependencies", "failures"), UNKNOWN),
    }
    assert "Add n3 to the option instances" in found["answers"]["healthy"]["remedy"]
    nobody = reading(machine(1), instances=None)
    assert verdicts(nobody)["in_use"] == UNKNOWN


def test_one_that_is_asked_for_and_not_made_is_not_well() -> None:
    found = reading(machine(1))
    assert verdicts(found)["healthy"] == NO
    assert lines(found)[0] == f"{r.KUBELET_DOWN}: n2: its kubelet is not running"


@pytest.mark.parametrize(("service", "mode"), [("kubelet", r.KUBELET_DOWN), ("containerd", r.RUNTIME_DOWN)])
def test_a_service_that_does_not_run_is_told(service: str, mode: str) -> None:
    host = machine()
    host.run(["sv", "down", f"{g.STATE}/n2/sv/ballast-lab-n2-{service}"], timeout=5)
    found = reading(host)
    assert found["present"] == (mode,)
    assert verdicts(found) == {**dict.fromkeys(MEASURED, YES), "healthy": NO, "failures": NO}
    assert lines(found) == (f"{mode}: n2: its {service} is not running",)
    assert "start" in found["answers"]["healthy"]["remedy"].lower()


@pytest.mark.parametrize(
    ("message", "mode"),
    [
        ("container runtime is down", r.RUNTIME_DOWN),
        ("PLEG is not healthy: pleg was last seen active 3m0s ago", r.RUNTIME_DOWN),
        ("container runtime not ready: RuntimeReady=false reason:Broken message:", r.RUNTIME_DOWN),
        ("container runtime status check may not have completed yet", r.RUNTIME_DOWN),
        (
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error",
            r.NOT_READY,
        ),
    ],
)
def test_a_node_that_is_not_ready_is_told_by_its_reason(message: str, mode: str) -> None:
    host = machine()
    node = g.node(ready="False", message=message)
    host.answer("https://10.97.0.1:6443/api/v1/nodes/n1", json_answer(200, node))
    found = reading(host)
    assert found["present"] == (mode,)
    assert message in lines(found)[0]


def test_an_api_that_is_away_is_told_of_every_instance() -> None:
    host = machine()
    host.answer("https://10.97.0.1:6443/", Response(status=503, body=b""))
    assert reading(host)["present"] == ()  # the Nodes are answered by a longer address
    quiet = g.machine()
    apply(ENGINE, g.desired(2), quiet)
    found = reading(quiet)
    assert verdicts(found)["dependencies"] == NO
    assert [line.split(":")[0] for line in lines(found, "dependencies")] == ["n1", "n2"]
    assert found["present"] == (r.NOT_READY, r.PROXY_UNWELL)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"status": []}', b'{"status": {"conditions": [{}]}}', b"[" * 100000])
def test_a_node_that_is_none_is_not_ready_and_no_traceback(body: bytes) -> None:
    host = machine()
    host.answer("https://10.97.0.1:6443/api/v1/nodes/n1", Response(status=200, body=body))
    assert reading(host)["present"] == (r.NOT_READY,)


def test_a_kube_proxy_that_is_not_well_is_told() -> None:
    host = machine()
    host.answer("http://10.97.0.12:10256/healthz", Response(status=503, body=b""))
    found = reading(host)
    assert found["present"] == (r.PROXY_UNWELL,)
    assert lines(found) == (f"{r.PROXY_UNWELL}: n2: kube-proxy returns status 503 on /healthz",)


def test_after_a_restart_of_the_host_all_that_is_gone_is_told() -> None:
    host = machine(1)
    restarted = g.machine()
    for path in host.paths("/var/lib"):
        if host.stat(path).kind == "directory":  # type: ignore[union-attr]
            restarted.given_directory(path, mode=host.mode(path))
        elif "/supervise/" not in path:
            restarted.given(path, host.text(path), mode=host.mode(path))
    g.answer_ready(restarted)
    found = reading(restarted, 1)
    assert r.PART_MISSING in found["present"]
    for part in ("network namespace ballast-lab-n1", "veth ", "cgroup ballast-lab-n1", "mount namespace"):
        assert any(part in line and "is missing" in line for line in lines(found)), part


def test_a_link_that_was_taken_from_its_bridge_is_not_whole() -> None:
    host = machine(1)
    host.run(["ip", "link", "del", "ballast-lab-n1"], timeout=5)
    found = reading(host, 1)
    assert found["present"] == (r.PART_MISSING,)
    assert "veth ballast-lab-n1 is missing" in " ".join(lines(found))


def test_a_file_that_is_gone_is_told_and_one_of_a_secret_is_not_read() -> None:
    host = machine(1)
    host.remove(f"{g.STATE}/n1/etc/kubelet.json")
    host.effects.clear()
    found = reading(host, 1)
    assert lines(found) == (f"{r.PART_MISSING}: file {g.STATE}/n1/etc/kubelet.json is missing",)
    assert "n1 kubelet key" not in json.dumps(found)


def test_what_a_program_lacks_is_told() -> None:
    host = machine(1)
    host.remove(f"{g.BIN}/kubelet")
    host.effects.clear()
    found = reading(host, 1)
    assert verdicts(found)["dependencies"] == NO
    assert lines(found, "dependencies") == (f"{g.BIN}/kubelet",)


@pytest.mark.parametrize("cgroups", [1, 2])
def test_what_nears_its_limit_is_told(cgroups: int) -> None:
    rows = [g.instance(1, memory="1000Mi", pids=100)]
    host = machine(1, cgroups=cgroups, instances=rows)
    usage, idle = (
        ("memory.usage_in_bytes", "total_inactive_file") if cgroups == 1 else ("memory.current", "inactive_file")
    )
    root = "/sys/fs/cgroup/{}ballast-lab-n1"
    memory, pids = (root.format(f"{name}/" if cgroups == 1 else "") for name in ("memory", "pids"))
    host.given(f"{memory}/{usage}", f"{999 << 20}\n")
    host.given(f"{memory}/memory.stat", f"{idle} {100 << 20}\nanon 5\n")
    host.given(f"{pids}/pids.current", "94\n")
    found = reading(host, 1, instances=rows)
    assert verdicts(found) == dict.fromkeys(MEASURED, YES)
    assert figures(found, "scale")["n1, memory with its pods"] == (899 << 20, 1000 << 20)
    host.given(f"{memory}/memory.stat", f"{idle} {1 << 20}\n")
    host.given(f"{pids}/pids.current", "95\n")
    found = reading(host, 1, instances=rows)
    assert found["present"] == (r.NEAR_LIMIT,)
    assert verdicts(found) == {**dict.fromkeys(MEASURED, YES), "scale": NO, "failures": NO}
    assert "memory of n1" in found["answers"]["scale"]["text"]
    assert "process ids of n1: 95 of 100" in found["answers"]["scale"]["text"]
    assert "Raise `memory` or `pids`" in found["answers"]["scale"]["remedy"]


def test_a_disk_that_is_nearly_full_is_told() -> None:
    host = machine()
    host.free = 2**30 - 1
    found = reading(host)
    assert found["present"] == (r.DISK_FULL,)
    assert "1023 MiB of disk are free" in found["answers"]["scale"]["text"]


def test_room_that_cannot_be_read_is_unknown() -> None:
    host = machine()
    host.given("/proc/meminfo", "MemTotal: many kB\n")
    assert verdicts(reading(host))["scale"] == UNKNOWN


def test_a_run_that_was_killed_is_told() -> None:
    host = machine(1)
    host.fail_at(30)
    with pytest.raises(Killed):
        apply(ENGINE, g.desired(2), host)
    host.calm()
    found = reading(host, 1)
    assert r.RUN_OPEN in found["present"]
    assert "was interrupted" in found["answers"]["rollback"]["text"]


def test_what_disabling_would_do_is_told_by_instance_in_the_order_of_removal() -> None:
    found = reading(machine())
    told = lines(found, "disabling")
    assert [line.split(":")[0] for line in told[:2]] == ["node n2", "node n1"]
    assert "3 service" in told[0]
    assert any("sysctl-minimum" in line for line in told)


def test_every_failure_mode_is_found_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    ids = {mode.id for mode in BY_NAME[r.NAME].failures}
    assert ids <= {id for name, id in vars(r).items() if isinstance(id, str) and re.search(rf"\br\.{name}\b", source)}
