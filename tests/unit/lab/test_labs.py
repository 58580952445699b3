# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The list of labs: of those that run, are stopped, lost their directory, or have a damaged record; and planes that are no labs."""

from __future__ import annotations

import base64
import json
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._lab.labs import read_labs
from ansible_collections.ballast.kube.plugins.module_utils._registry.names import REGISTRY
from tests.unit.fakes import FakeHost, json_answer

CA = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n").decode()


def kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "clusters": [{"name": "k", "cluster": {"server": server, "certificate-authority-data": CA}}],
            "users": [{"name": "a", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "a"}}],
            "current-context": "c",
        }
    )


def node(*conditions: tuple[str, str]) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": status} for kind, status in conditions]}}


def machine() -> FakeHost:
    host = FakeHost()
    for name in ("down", "gone", "lab", "odd", "plane"):
        host.given(f"{REGISTRY}/{name}.json", json.dumps({"lab_dir": f"/srv/{name}"}))
    record = {"version": 1, "kubernetes_version": "1.37.1", "nodes": [{}, {}]}
    for name in ("down", "lab"):
        host.given(f"/srv/{name}/lab.json", json.dumps(record))
        host.given(f"/srv/{name}/admin.kubeconfig", kubeconfig(f"https://{name}:6443"), mode=0o600)
    host.given("/srv/odd/lab.json", "{")
    host.given("/srv/plane/ledger.jsonl", "")
    nodes = [node(("MemoryPressure", "True"), ("Ready", "True")), node(("Ready", "Unknown"))]
    host.answer("https://lab:6443/api/v1/nodes", json_answer(200, {"items": nodes}))
    return host


def test_each_lab_has_its_state() -> None:
    labs = {row["name"]: row for row in read_labs(machine(), {})["labs"]}
    assert {name: row["state"] for name, row in labs.items()} == {
        "down": "stopped",
        "gone": "lost",
        "lab": "running",
        "odd": "unreadable",
    }
    assert (labs["lab"]["ready"], labs["lab"]["nodes"], labs["lab"]["kubernetes_version"]) == (1, 2, "1.37.1")
    assert (labs["down"]["ready"], labs["down"]["nodes"]) == (0, 2)


def test_what_does_not_run_has_a_remedy_in_the_table() -> None:
    lines = read_labs(machine(), {})["ballast_summary"].splitlines()
    assert lines[0].split() == ["NAME", "DIRECTORY", "KUBERNETES", "NODES", "STATE"]
    assert lines[1].endswith("stopped; start it: ansible-playbook ballast.kube.lab_up -e lab_dir=/srv/down")
    assert lines[2].endswith("ansible-playbook ballast.kube.lab_down -e lab_dir=/srv/gone")
    assert lines[3].split()[2:] == ["1.37.1", "1", "of", "2", "Ready", "running"]


def test_a_host_without_a_lab_is_told_how_to_make_one() -> None:
    assert read_labs(FakeHost(), {}) == {
        "labs": [],
        "ballast_summary": "this host has no lab. Create one: ansible-playbook ballast.kube.lab_up",
    }
