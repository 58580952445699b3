# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what each identity of the project may do into docs/permissions.md, between its marks.

    python -m scripts.permission_page            # write
    python -m scripts.permission_page --check    # status 1 if the page would change

The rights are read from the objects and certificates that the engines make. The purpose of each identity and the validity of its
credentials are written here; tests/unit/project/test_permissions.py fails for an identity without words, or words without an
identity.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from scripts.written import ROOT, between, run

sys.path.insert(0, str(ROOT / ".build" / "collections"))  # made by `make env`

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import NAME, NAMESPACE, SIZES
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.objects import build_objects
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import (
    NEVER_PREEMPT,
    PRESENT,
    BalloonsRequest,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.objects import agent_rights
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import wanted_resources
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.certificates import (
    certificates,
    node_certificates,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.identities import (
    IDENTITIES,
    SERVICE_PROXY_USER,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import CLIENT
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.request import ControlPlaneRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.objects import NAME as FLEET
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.objects import worker_rights
from ansible_collections.ballast.kube.plugins.module_utils._lab import kube_proxy
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.catalog import ADDONS
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.daemonset.objects import daemonset_objects
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.daemonset.request import DaemonSetRequest

PAGE = ROOT / "docs/permissions.md"
SERVICE_PROXY = ROOT / "roles/service_proxy/files/rights.yml"
BEGIN, END = "<!-- identities begin -->", "<!-- identities end -->"
NODE = "NODE"
FLEET_NAMESPACE = "ballast-fleet"
_NODE = {"name": NODE, "address": "192.0.2.1", "taints": []}
_MINUTES = "a certificate for each run, 10 minutes; not kept"
_DAYS = "`certificate_days`, in `pki/` of the control plane"

# By user: the validity and place of its credential, and its purpose.
WORDS: Mapping[str, tuple[str, str]] = {
    **{identity.user: (_MINUTES, identity.why) for identity in IDENTITIES},
    "ballast:admin": (
        f"{_DAYS} and `admin.kubeconfig`",
        "the administrator. Remove its ClusterRoleBinding to revoke it",
    ),
    "ballast:aggregation": (_DAYS, "the aggregation agent: says which extension API servers answer"),
    "kube-apiserver-kubelet-client": (_DAYS, "the API server, as a client of kubelets: logs, exec"),
    "system:kube-controller-manager": (
        _DAYS,
        "kube-controller-manager; each controller acts as its own ServiceAccount",
    ),
    "system:kube-scheduler": (_DAYS, "kube-scheduler"),
    f"system:node:{NODE}": (
        f"{_DAYS}, and on the node",
        "a kubelet, bound to its own Node by the Node authorizer and NodeRestriction",
    ),
    "system:kube-proxy": (f"{_DAYS}, and on the node", "kube-proxy of a node. All nodes share the name"),
    SERVICE_PROXY_USER: (
        f"{_DAYS}, and on the node",
        "ballast-service-proxy of a node that has it in place of kube-proxy. All nodes share the name",
    ),
    "front-proxy-client": (
        _DAYS,
        "the API server, as a client of extension API servers. Of another authority: it opens no API server of Kubernetes",
    ),
    "apiserver-etcd-client": (
        _DAYS,
        "the API server, as a client of etcd. Of etcd's own authority: it opens etcd alone",
    ),
    "etcd": (_DAYS, "etcd's gateway, as a client of etcd"),
    "etcd-peer": (_DAYS, "etcd, as a member among members"),
    "system:serviceaccount:kube-system:kube-proxy": (
        "a token of the kubelet, which renews it",
        "kube-proxy of a lab that runs it as a DaemonSet, as kubeadm does",
    ),
    "system:serviceaccount:kube-system:coredns": (
        "a token of the kubelet, which renews it",
        "CoreDNS of a lab with the add-on dns: follows what names are made of",
    ),
    "system:serviceaccount:kube-system:metrics-server": (
        "a token of the kubelet, which renews it",
        "metrics-server of a lab with the add-on metrics: asks every kubelet what its node and pods use",
    ),
    "system:serviceaccount:kube-system:metallb-controller": (
        "a token of the kubelet, which renews it",
        "MetalLB's controller, of a lab with the add-on load_balancer: gives addresses to Services",
    ),
    "system:serviceaccount:kube-system:metallb-speaker": (
        "a token of the kubelet, which renews it",
        "MetalLB's speaker on each node of a lab with the add-on load_balancer: answers ARP for the addresses of Services",
    ),
    "system:serviceaccount:kube-system:kube-network-policies": (
        "a token of the kubelet, which renews it",
        "kube-network-policies on each node of a lab with the add-on network_policy: judges connections of pods by NetworkPolicies",
    ),
    "system:serviceaccount:kube-system:local-path-provisioner": (
        "a token of the kubelet, which renews it",
        "local-path-provisioner of a lab with the add-on storage: makes volumes, and runs a pod for each directory that it makes or removes",
    ),
    f"system:serviceaccount:{NAMESPACE}:{NAME}": (
        "a token that you ask for: `kubectl create token`",
        "the reconciler of balloons. A ValidatingAdmissionPolicy confines its writes",
    ),
    f"system:serviceaccount:{FLEET_NAMESPACE}:{FLEET}": (
        "a token of the kubelet, which renews it",
        "a worker of a fleet run: counts failures with those of other slices, and writes its report",
    ),
    "system:serviceaccount:kube-system:ballast-service-proxy": (
        "a token that you ask for: `kubectl create token`, or a Secret of it",
        "the service proxy of a node: follows Services, and writes Events about them. All nodes share it",
    ),
    "system:serviceaccount:kube-system:ballast-service-proxy-pod": (
        "a token of the kubelet, which renews it",
        "the same where a DaemonSet runs the service proxy",
    ),
}
# Rights that are in none of our objects: bound by the API server itself, or given by another authority.
_BUILT_IN: Mapping[str, str] = {
    "ballast:bootstrap": "everything: the group `system:masters`, whom RBAC is not asked about",
    "system:kube-controller-manager": "ClusterRole `system:kube-controller-manager`",
    "system:kube-scheduler": "ClusterRoles `system:kube-scheduler` and `system:volume-scheduler`",
    f"system:node:{NODE}": "what the Node authorizer allows this node (group `system:nodes`)",
    "system:kube-proxy": "ClusterRole `system:node-proxier`",
    "front-proxy-client": "nothing here",
    "apiserver-etcd-client": "all keys of etcd",
    "etcd": "all keys of etcd",
    "etcd-peer": "replication",
}


def found() -> dict[str, list[str]]:
    """All rights of each user, from every binding."""
    objects = list(_objects())
    rules = {(manifest["kind"], _name(path)): manifest["rules"] for path, manifest in objects if "rules" in manifest}
    may: dict[str, list[str]] = {user: [] for user in _holders()}
    for path, manifest in objects:
        if "roleRef" not in manifest:
            continue
        role, place = manifest["roleRef"], _namespace(path)
        named = rules.get((role["kind"], role["name"]))
        lines = [f"{role['kind']} `{role['name']}`"] if named is None else [_shown(rule) for rule in named]
        for subject in manifest["subjects"]:
            may.setdefault(_user(subject), []).extend(f"{line}{place}" for line in lines)
    for user, text in _BUILT_IN.items():
        may.setdefault(user, []).append(text)
    return may


def _objects() -> Iterator[tuple[str, dict[str, Any]]]:
    plane = _request()
    for identity in IDENTITIES:
        if identity.rules:
            yield from identity.objects().items()
    resources = [*wanted_resources(plane), *agent_rights(plane.state_dir, group="")]
    for resource in resources:
        if resource.kind == "api-object":
            yield resource.target.partition(" of ")[0], dict(resource.value)  # type: ignore[arg-type]
    request = BalloonsRequest(
        PRESENT, "/x", NAMESPACE, (), None, NEVER_PREEMPT, 30.0, slices=False, vm=False, image="x", names=SIZES
    )
    yield from build_objects(request).items()
    reports = [FLEET, f"{FLEET}-canary-0", f"{FLEET}-slice-0"]  # and one for each further slice
    yield from worker_rights(FLEET_NAMESPACE, reports).items()
    yield from kube_proxy.manifests(kube_proxy.LabKubeProxyRequest("/x", "/x", "x", "x", "nftables")).items()
    for manifest in yaml.safe_load(SERVICE_PROXY.read_text(encoding="utf-8"))["items"]:
        yield manifest["metadata"]["name"], manifest
    yield from daemonset_objects(DaemonSetRequest(PRESENT, "", "", "x")).items()
    for addon in ADDONS.values():
        lab = {
            "service_cidr": _request().service_cidr,
            "node_cidr": "10.97.0.0/24",
            "pod_cidr": "10.128.0.0/16",
            "nodes": [_NODE],
        }
        yield from addon.manifests(lab, LocalHost()).items()


def _holders() -> list[str]:
    """All users with a client certificate."""
    request = _request()
    made = [*certificates(request), *node_certificates(request)]
    return [identity.user for identity in IDENTITIES] + [
        identity.common_name for identity in made if CLIENT in identity.usages
    ]


def _request() -> ControlPlaneRequest:
    given = {name: option.get("default") for name, option in MAKE.items()}
    here = {"state_dir": "/x/y", "kubernetes_version": "1.37.1", "bin_dir": "/x", "address": "192.0.2.1"}
    node = {"name": "node", "addresses": ["192.0.2.2"], "service_proxy": True}
    return ControlPlaneRequest.from_params({**given, **here, "nodes": [node]})


def _user(subject: Mapping[str, Any]) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return str(subject["name"])


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _namespace(path: str) -> str:
    words = path.split("/")
    return f" in `{words[words.index('namespaces') + 1]}`" if "namespaces" in words else ""


def _shown(rule: Mapping[str, Any]) -> str:
    verbs = ", ".join(rule["verbs"])
    if "nonResourceURLs" in rule:
        return f"{verbs} `{'`, `'.join(rule['nonResourceURLs'])}`"
    (group,) = rule["apiGroups"]
    names = "`, `".join(f"{resource}.{group}" if group else resource for resource in rule["resources"])
    of = f" named `{'`, `'.join(rule['resourceNames'])}`" if rule.get("resourceNames") else ""
    return f"{verbs} `{names}`{of}"


def table() -> str:
    may = {(f"system:node:{NODE}" if user == "system:node:node" else user): lines for user, lines in found().items()}
    rows = [
        f"| `{user}` | {'; '.join(dict.fromkeys(may[user]))} | {until} | {why} |"
        for user, (until, why) in WORDS.items()
    ]
    return "\n".join(["\n| who | may | credential | why |\n|---|---|---|---|", *rows, ""])


def files() -> Iterator[tuple[Path, str]]:
    yield PAGE, between(PAGE, BEGIN, END, table())


def main(arguments: list[str]) -> int:
    return run("permission_page", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
