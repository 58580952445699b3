# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identities with which the collection uses the API server of its own control planes: one for each purpose. Pure.

The authority of a control plane is on its machine. So no file keeps credentials of these identities: each run has its own
client certificate, which expires after minutes. RBAC, which `rights.py` makes, limits what an identity may do.

BOOTSTRAP is in system:masters, which RBAC does not limit. It only makes RBAC objects and Namespaces, which nobody else may
make before there are any. The administrator is an ordinary user: removing the ClusterRoleBinding ballast:admin revokes every
admin.kubeconfig until the next run of the control plane makes it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..._core.engine.plan import Value
from ..._core.host.names import MARK

SECONDS = 600  # validity: the longest command with such a certificate, a drain, takes 90
RBAC = "rbac.authorization.k8s.io"
ADMIN_USER = f"{MARK}:admin"
SERVICE_PROXY_USER = f"{MARK}:service-proxy"  # of the ballast-service-proxy of every node
_CHANGE = ("get", "create", "patch", "delete")


@dataclass(frozen=True)
class Rule:
    """Rights in one API group. Empty `names`: any. A rule with `names` covers a server-side apply that creates, but never a POST."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Value]:
        """A PolicyRule of RBAC."""
        rule: dict[str, Value] = {"apiGroups": [self.group], "resources": [*self.resources], "verbs": [*self.verbs]}
        return {**rule, "resourceNames": [*self.names]} if self.names else rule


@dataclass(frozen=True)
class Identity:
    """`namespace` is where `rules` hold, "" for everywhere; `cluster_rules` hold everywhere. An identity may also get its own
    roles, to see whether it has its rights."""

    user: str
    why: str
    rules: tuple[Rule, ...] = ()
    urls: tuple[str, ...] = ()  # non-resource URLs that it may get
    group: str = ""
    namespace: str = ""
    cluster_rules: tuple[Rule, ...] = ()

    @property
    def role_path(self) -> str:
        """The path in the API of the role with `rules`: a ClusterRole without a namespace."""
        return self._path("role", self.namespace)

    def roles(self) -> dict[str, dict[str, Value]]:
        """Its Role and ClusterRole by path."""
        roles = {self.role_path: self._role(self.namespace, self.rules)}
        if self.cluster_rules:
            roles[self._path("role", "")] = self._role("", self.cluster_rules)
        return roles

    def objects(self) -> dict[str, dict[str, Value]]:
        """Its RBAC objects by path, in the order in which they are made: the roles, then their bindings."""
        bindings = {
            path.replace("roles/", "rolebindings/"): bind(str(role["kind"]), self.user, self.user)
            for path, role in self.roles().items()
        }
        return {**self.roles(), **bindings}

    def _role(self, namespace: str, rules: tuple[Rule, ...]) -> dict[str, Value]:
        kind, own = ("Role", "roles") if namespace else ("ClusterRole", "clusterroles")
        parts: list[Value] = [rule.as_json() for rule in (*rules, Rule(RBAC, (own,), ("get",), (self.user,)))]
        if self.urls and not namespace:
            parts.append({"nonResourceURLs": [*self.urls], "verbs": ["get"]})
        return {"apiVersion": f"{RBAC}/v1", "kind": kind, "rules": parts}

    def _path(self, what: str, namespace: str) -> str:
        place = f"namespaces/{namespace}/{what}" if namespace else f"cluster{what}"
        return f"/apis/{RBAC}/v1/{place}s/{self.user}"


BOOTSTRAP = Identity(
    f"{MARK}:bootstrap",
    "gives the others their rights, takes those of nodes that left a lab, and makes a lab's Namespaces",
    group="system:masters",
)
CONTROL_PLANE = Identity(
    f"{MARK}:control-plane",
    "waits for a control plane, compares it with what was asked for, registers extension API servers",
    rules=(
        Rule("", ("serviceaccounts",), ("get",), ("default",)),
        Rule("", ("nodes", "pods", "namespaces"), ("list",)),
        Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("list",)),
        Rule("apiregistration.k8s.io", ("apiservices",), ("list", *_CHANGE)),
        Rule(RBAC, ("clusterroles", "clusterrolebindings"), ("get",)),
    ),
    urls=("/metrics",),
)
LAB_NAMESPACE = f"{MARK}-lab"
LAB_CHECK = Identity(
    f"{MARK}:lab-check",
    "runs the pods of the check of a lab, and asks each of them for the others; counts NetworkPolicies, which a lab does not enforce",
    rules=(
        Rule("", ("namespaces",), ("get",), (LAB_NAMESPACE,)),
        Rule("apps", ("daemonsets",), _CHANGE, ("echo",)),
        Rule("", ("services",), _CHANGE, ("echo",)),
        Rule("", ("pods",), ("get", "list")),
        Rule("", ("pods/log",), ("get",)),
        Rule("", ("pods/proxy",), ("create",)),
    ),
    namespace=LAB_NAMESPACE,
    cluster_rules=(Rule("networking.k8s.io", ("networkpolicies",), ("list",)),),
)
LAB_KUBE_PROXY = Identity(
    f"{MARK}:lab-kube-proxy",
    "makes the DaemonSet of kube-proxy of a lab that has one, as kubeadm does",
    rules=(
        Rule("", ("serviceaccounts", "configmaps"), _CHANGE, ("kube-proxy",)),
        Rule("apps", ("daemonsets",), _CHANGE, ("kube-proxy",)),
    ),
    namespace="kube-system",
)
_METALLB = ("metallb-controller", "metallb-speaker")
_METALLB_RESOURCES = tuple(
    f"{resource}.metallb.io"
    for resource in (
        *("bfdprofiles", "bgpadvertisements", "bgppeers", "communities", "configurationstates", "ipaddresspools"),
        *("l2advertisements", "servicebgpstatuses", "servicel2statuses"),
    )
)
LAB_ADDONS = Identity(
    f"{MARK}:lab-addons",
    "makes the add-ons of a lab, and reads whether they run",
    rules=(
        Rule(
            "",
            ("serviceaccounts",),
            _CHANGE,
            ("coredns", "kube-network-policies", "local-path-provisioner", "metrics-server", *_METALLB),
        ),
        Rule("", ("configmaps",), _CHANGE, ("coredns", "local-path-provisioner", "registry")),
        Rule("", ("services",), _CHANGE, ("kube-dns", "metrics-server")),
        Rule(
            "apps",
            ("deployments",),
            _CHANGE,
            ("coredns", "local-path-provisioner", "metrics-server", "registry", _METALLB[0]),
        ),
        Rule("apps", ("daemonsets",), _CHANGE, (_METALLB[1], "kube-network-policies")),
        Rule(RBAC, ("roles",), ("get",), ("local-path-provisioner", *_METALLB)),
        Rule(RBAC, ("rolebindings",), ("get",), ("local-path-provisioner", "metrics-server", *_METALLB)),
        Rule("metallb.io", ("ipaddresspools", "l2advertisements"), _CHANGE, ("lab",)),
        Rule("metallb.io", ("ipaddresspools",), ("deletecollection",)),
    ),
    namespace="kube-system",
    cluster_rules=(
        Rule("storage.k8s.io", ("storageclasses",), _CHANGE, ("local-path",)),
        Rule("apiregistration.k8s.io", ("apiservices",), _CHANGE, ("v1beta1.metrics.k8s.io",)),
        Rule("apiextensions.k8s.io", ("customresourcedefinitions",), _CHANGE, _METALLB_RESOURCES),
        Rule("", ("services",), ("list",)),
        Rule("", ("services/status",), ("patch",)),
    ),
)
DEPARTED = f"{MARK}-departed-nodes"  # the policy that refuses writes of nodes that have left
LAB_NODES = Identity(
    f"{MARK}:lab-nodes",
    "sets labels and taints of a lab's nodes; drains and removes those that leave",
    rules=(
        Rule("", ("nodes",), ("get", "patch", "delete")),
        Rule("", ("pods",), ("get", "list")),
        Rule("", ("pods/eviction",), ("create",)),
        Rule("apps", ("daemonsets",), ("get",)),
        Rule("admissionregistration.k8s.io", ("validatingadmissionpolicies",), ("get",), (DEPARTED,)),
    ),
)
LAB_LOGS = Identity(
    f"{MARK}:lab-logs",
    "collects a lab's diagnostics",
    rules=(
        Rule("", ("nodes", "pods", "events", "services"), ("list",)),
        Rule("discovery.k8s.io", ("endpointslices",), ("list",)),
    ),
)
IDENTITIES = (BOOTSTRAP, CONTROL_PLANE, LAB_CHECK, LAB_KUBE_PROXY, LAB_ADDONS, LAB_NODES, LAB_LOGS)


def admin_binding() -> tuple[str, dict[str, Value]]:
    """Path and object of the binding that makes the user of admin.kubeconfig an administrator."""
    return f"/apis/{RBAC}/v1/clusterrolebindings/{ADMIN_USER}", bind("ClusterRole", "cluster-admin", ADMIN_USER)


def service_proxy_rights() -> dict[str, dict[str, Value]]:
    """The ClusterRole of SERVICE_PROXY_USER and its binding, by path: what the manifest of the role service_proxy gives."""
    follow = ("list", "watch")
    rules = (
        Rule("", ("services", "nodes"), follow),
        Rule("discovery.k8s.io", ("endpointslices",), follow),
        Rule("networking.k8s.io", ("servicecidrs",), follow),
        Rule("events.k8s.io", ("events",), ("create",)),
    )
    role: dict[str, Value] = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "rules": [rule.as_json() for rule in rules],
    }
    return {
        f"/apis/{RBAC}/v1/clusterroles/{SERVICE_PROXY_USER}": role,
        f"/apis/{RBAC}/v1/clusterrolebindings/{SERVICE_PROXY_USER}": bind(
            "ClusterRole", SERVICE_PROXY_USER, SERVICE_PROXY_USER
        ),
    }


def bind(kind: str, role: str, user: str) -> dict[str, Value]:
    """A RoleBinding or ClusterRoleBinding of one user, without metadata."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


def reader_of(path: str, identity: Identity) -> Identity:
    """The identity that reads the object at that path: CONTROL_PLANE for cluster-wide RBAC objects, else `identity`."""
    return CONTROL_PLANE if path.startswith(f"/apis/{RBAC}/v1/cluster") else identity


def writer_of(path: str, identity: Identity) -> Identity:
    """The identity that writes the object at that path: BOOTSTRAP for RBAC objects and Namespaces, else `identity`."""
    words = path.strip("/").split("/")
    return BOOTSTRAP if RBAC in words or (len(words) == 4 and words[2] == "namespaces") else identity
