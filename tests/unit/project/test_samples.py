# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs that pages show are what the code prints, for the values that the page has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._balloon import table as balloon_table
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent import main as reconciler
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent import settings as reconciler_settings
from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent import status as reconciler_status
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._lab import summary as lab_summary
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness import info, summary
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import main as pull_proxy
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import settings as pull_proxy_settings
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import status as pull_proxy_status
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import status as service_proxy_status
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.kube_proxy_looks import audit
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.kube_proxy_preview import preview
from tests.unit.balloon.sized import amount, balloon, fleet, node
from tests.unit.fakes import FakeHost
from tests.unit.fleet.test_kube_proxy_reports import asked, look, names
from tests.unit.lab import given as lab
from tests.unit.readings import FEATURES, host, reading, reading_off

ROOT = Path(__file__).resolve().parents[3]
MIB = 1024 * 1024
LAB = "/var/lib/ballast/lab"
DOCUMENTS = [ROOT / f"plugins/plugin_utils/readiness_features/{feature.name}.yml" for feature in FEATURES]


def shown(page: str, first: str, count: int) -> list[str]:
    """So many lines of a page, from the one that begins with `first`."""
    lines = (ROOT / page).read_text(encoding="utf-8").split("\n")
    (start,) = (number for number, line in enumerate(lines) if line.startswith(first))
    return lines[start : start + count]


def block(page: str, first: str) -> str:
    """The fenced block whose first line is `first`."""
    (found,) = re.findall(
        rf"^```\w*\n({re.escape(first)}\n.*?)^```$",
        (ROOT / page).read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    return str(found)


def assert_shown(page: str, printed: str | list[str]) -> None:
    lines = printed.rstrip("\n").split("\n") if isinstance(printed, str) else printed
    assert shown(page, lines[0], len(lines)) == lines


def message(playbook: str, task: str = "Print the summary", **values: Any) -> str:
    """What a task of a playbook reports."""
    tasks = yaml.safe_load((ROOT / f"playbooks/{playbook}.yml").read_text(encoding="utf-8"))[0]["tasks"]
    (found,) = (one["ballast.kube.playbook_message"]["msg"] for one in tasks if one["name"] == task)
    template = jinja2.Template("\n".join(found) if isinstance(found, list) else found)
    return str(template.render(**values))


def test_form_of_an_error() -> None:
    with pytest.raises(BallastError) as caught:
        lab.request(topology={"nodes": [{"name": "n1"}, {"name": "n2", "proxy_backend": "nftable"}]})
    assert_shown("docs/errors.md", str(caught.value))


def test_readiness_of_a_lab() -> None:
    machine = ("image_pull_proxy", "balloons", "node_instances", "control_plane")
    on_host = [reading(name) if name in machine[2:] else reading_off(name) for name in machine]
    nodes = [host(name, reading("kube_proxy"), reading_off("image_pulls")) for name in ("n1", "n2", "n3")]
    documents = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in DOCUMENTS]
    asked_for = {"hosts": [host("localhost", *on_host), *nodes], "required_hosts": [], "exercises": []}
    report = info.read_readiness(FakeHost(), {**asked_for, "previous": None, "documents": documents})["report"]
    assert_shown("docs/readiness.md", summary.summary_lines(report))


def test_the_page_of_readiness_has_each_feature() -> None:
    page = (ROOT / "docs/readiness.md").read_text(encoding="utf-8")
    assert [feature.title for feature in FEATURES if f"]({feature.page.removeprefix('docs/')}) | " not in page] == []


def test_table_of_balloons() -> None:
    sized = [
        node(name, host="h", target=amount(5000, 20480), balloon=balloon(amount(10900, 44700)))
        for name in ("n1", "n2", "n3")
    ]
    found = fleet(*sized, reserve=amount(1000, 4096))
    assert_shown("docs/balloons.md", balloon_table.table(found, {}, ["n1", "n2", "n3"]))


def test_reconciler_of_balloons() -> None:
    page = "docs/balloon-reconciler.md"
    settings = reconciler_settings.parse_settings(block(page, "# balloons.yml"), name="balloons.yml")
    assert_shown(page, f"balloons.yml: valid: {reconciler._describe(settings)}")
    row = {
        "host": "boot-1",
        "target": {"cpu": "1500m", "memory": "3072Mi"},
        "allocated": {"cpu": "2400m", "memory": "4864Mi"},
        "free": {"cpu": "1500m", "memory": "3072Mi"},
        "at_target": True,
        **dict.fromkeys(("outcome", "seconds_left", "message")),
    }
    hosts = {"room": {"cpu": "3800m", "memory": "7680Mi"}, "open": {"cpu": "3000m", "memory": "6144Mi"}}
    status = {
        "nodes": [{"name": "n1", **row}, {"name": "n2", **row}],
        "hosts": [{"name": "boot-1", "holds": True, **hosts}],
        "seconds_since_success": 4,
        "moving": False,
        "api_calls": 13,
        "seconds": 5,
        "config": "balloons.yml",
        "problems": [],
    }
    assert_shown(page, reconciler_status.table(status))


def test_pull_proxy() -> None:
    page = "docs/pull-proxy.md"
    settings = pull_proxy_settings.parse_settings(block(page, "# pull-proxy.yml"), name="pull-proxy.yml")
    assert_shown(page, f"pull-proxy.yml: valid: {pull_proxy._describe(settings)}")

    def pull(seconds: float, listener: str, image: str, *pods: str, place: int = 0) -> dict[str, Any]:
        image = f"registry.example/{image}"
        row = {"seconds": seconds, "callers": len(pods), "listener": listener, "pods": pods, "image": image}
        return {**row, "place": place}

    status = {
        "max_in_flight": 2,
        "in_flight": [
            pull(2.4, "n1", "shop/web:1.4", *(f"shop/web-{number}" for number in range(4))),
            pull(1.6, "n2", "shop/db:9", "shop/db-0"),
        ],
        "queued": [pull(1.1, "n2", "infra/agent:2", "shop/agent-x", place=1)],
        "connections": 2,
        "seconds": 3,
        "config": "pull-proxy.yml",
    }
    assert_shown(page, pull_proxy_status.table(status))


def test_service_proxy() -> None:
    status = {
        "node": "n1",
        "api": "followed",
        "services": 3,
        "changes": 1,
        "repairs": 2,
        "seconds": 2,
        "config": "/etc/ballast/service-proxy.yaml",
        "families": [{"family": family, "last_change": 1, "behind": False} for family in ("IPv4", "IPv6")],
        "last_comparison": 1,
        "last_repair": {"ago": 1, "pid": 1526, "program": "nft"},
        "api_lost": "",
        "failed": "",
        "refused": [],
    }
    assert_shown("docs/service-proxy.md", service_proxy_status.table(status))


def test_kube_proxy_of_a_fleet() -> None:
    page = "docs/kube-proxy-backends.md"
    looks = {name: look("ipvs") for name in names(12)}
    assert_shown(page, list(preview(asked(12, acts=False), looks).lines))
    assert_shown(page, list(audit({name: look("iptables") for name in names(3)}).lines))


def test_status_of_a_lab() -> None:
    nodes = tuple(
        lab_summary.NodeSummary(
            name=f"n{number}",
            host="localhost",
            ready=True,
            cordoned=False,
            ready_seconds=ready,
            pss_bytes=memory * MIB,
            pod_ip=f"10.128.{number}.{pod}",
            pods_reached=2,
            service_reached=True,
            name_resolved=True,
            proxy_backend="nftables",
        )
        for number, (ready, memory, pod) in enumerate([(1.5, 100, 4), (1.5, 85, 3), (2.0, 78, 3)], start=1)
    )
    found = lab_summary.Summary(
        name="lab",
        kubernetes_version="1.37.1",
        plane_ready_seconds=4.3,
        plane_rss_bytes=427 * MIB,
        nodes=nodes,
        addons=tuple(lab_summary.AddonState(name, "ready") for name in ("dns", "storage", "load_balancer")),
    )
    access = {"networks": ["10.96.0.0/16"], "node_ports": "30000-32767", "left_out": []}
    record = {"lab_dir": LAB, "hosts": [{"name": "localhost", "connection": "local"}], "host_services": access}
    assert_shown("docs/lab.md", lab_summary.table(found, record))


def test_the_end_of_a_lab() -> None:
    assert_shown("docs/lab.md", message("lab_stop", lab_dir=LAB))
    assert_shown("docs/lab.md", message("lab_down", lab_dir=LAB, lab_found={"steps": ["remove"]}))


def test_a_control_plane() -> None:
    variables = yaml.safe_load((ROOT / "playbooks/vars/plane.yml").read_text(encoding="utf-8"))
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)  # as Ansible renders it
    environment.filters["bool"] = bool
    directory = "/var/lib/ballast/planes/plane"
    memory = {"etcd": 39, "generic-apiserver": 183, "kube-controller-manager": 84}
    text = environment.from_string(variables["plane_table"]).render(
        decided={
            "plane": {
                "name": "plane",
                "plane_dir": directory,
                "options": {"profile": "generic"},
                "kubernetes_version": "1.37.1",
            }
        },
        measured={
            "kubernetes_version": "1.37.1",
            "components": [{"name": name, "rss_bytes": mebibytes * MIB} for name, mebibytes in memory.items()],
            "rss_bytes": 307 * MIB,
            "endpoint": "https://127.0.0.1:6443",
            "ready_seconds": 4.0,
            "kubeconfig": f"{directory}/admin.kubeconfig",
        },
        plane_become=False,
    )
    assert_shown("docs/control-plane.md", text.splitlines())
