# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kube-proxy of a lab as kubeadm has it run."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._lab.kube_proxy import ENGINE, LabKubeProxyRequest
from tests.unit.cases import apply
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.lab import given as g

PATHS = [
    "/api/v1/namespaces/kube-system/serviceaccounts/kube-proxy",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kubeadm:node-proxier",
    "/api/v1/namespaces/kube-system/configmaps/kube-proxy",
    "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy",
]


def desired(**changes: Any) -> LabKubeProxyRequest:
    given = {
        "state_dir": f"{g.DIR}/kube-proxy",
        "plane_dir": f"{g.DIR}/plane",
        "api_server": g.API,
        "cluster_cidr": "10.128.0.0/16",
        "mode": "iptables",
    }
    return LabKubeProxyRequest.from_params({**given, **changes})


def machine(objects: dict[str, Any]) -> FakeHost:
    host = g.machine()

    def get(url: str, _body: object) -> Response:
        path = url[len(g.API) :]
        return json_answer(200, objects[path]) if path in objects else json_answer(404, {})

    def patch(url: str, body: object) -> Response:
        path = url[len(g.API) :].partition("?")[0]
        objects[path] = json.loads(body) if isinstance(body, bytes) else {}
        return json_answer(200, objects[path])

    host.answer(g.API, get)
    host.answer(g.API, patch, method="PATCH")
    return host


def test_it_is_made_once_and_what_others_change_in_it_stays() -> None:
    objects: dict[str, Any] = {}
    host = machine(objects)
    apply(ENGINE, desired(), host)
    assert list(objects) == PATHS
    config = json.loads(objects[PATHS[2]]["data"]["config.conf"])
    assert (config["mode"], config["clusterCIDR"]) == ("iptables", "10.128.0.0/16")
    objects[PATHS[3]]["spec"]["updateStrategy"] = {"type": "OnDelete"}
    done = len(host.effects)
    assert apply(ENGINE, desired(), host).steps == ()
    assert host.effects[done:] == []
    assert [step.title for step in apply(ENGINE, desired(mode="nftables"), host).steps] == ["ConfigMap kube-proxy"]


def test_the_configuration_of_a_lab_of_ipv4_stays_as_earlier_versions_wrote_it() -> None:
    def keys(cluster_cidr: str) -> list[str]:
        objects: dict[str, Any] = {}
        apply(ENGINE, desired(cluster_cidr=cluster_cidr), machine(objects))
        return list(json.loads(objects[PATHS[2]]["data"]["config.conf"]))

    of_ipv4 = keys("10.128.0.0/16")
    assert of_ipv4[:5] == ["apiVersion", "kind", "bindAddress", "clientConnection", "clusterCIDR"]
    assert "bindAddress" not in keys("10.128.0.0/16,fd00:128::/56")


def test_its_pods_are_those_of_kubeadm() -> None:
    objects: dict[str, Any] = {}
    apply(ENGINE, desired(), machine(objects))
    spec = objects[PATHS[3]]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["command"][1:] == ["--config=/var/lib/kube-proxy/config.conf", "--hostname-override=$(NODE_NAME)"]
    assert spec["hostNetwork"] is container["securityContext"]["privileged"] is True
    assert spec["tolerations"] == [{"operator": "Exists"}]
    mounts = {mount["name"]: (mount["mountPath"], mount["readOnly"]) for mount in container["volumeMounts"]}
    assert mounts["lib-modules"] == ("/lib/modules", True)
    assert mounts["xtables-lock"] == ("/run/xtables.lock", False)
    assert {volume["name"] for volume in spec["volumes"]} == set(mounts)
