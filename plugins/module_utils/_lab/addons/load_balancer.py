# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of Services of type LoadBalancer: MetalLB in layer 2 mode.

Its controller gives a Service an address of the lab's node network. For each address the speaker of one node answers ARP on the
lab's bridge, and that node's kube-proxy does the rest. Speakers know each other by gossip (memberlist), so that another node answers
when one fails: without gossip MetalLB takes every Node object for a live node. The gossip is not encrypted: it stays on the bridge,
and a key would need the right to write Secrets of kube-system.

The controller's webhooks only reject wrong MetalLB objects early. They are disabled: the pool is made by us, and the API server
need not wait for them. A ConfigurationState names objects that MetalLB rejects.

The CRDs of MetalLB accept any field, as MetalLB itself interprets the objects. All its CRDs exist, those of BGP too, as the programs
watch all of them.

Source of the rights and options: config/rbac, controller/main.go and speaker/main.go of go.universe.tf/metallb; of the resources,
its api directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.host.host import Host
from ..._core.text.ip_families import parse_networks
from . import objects
from .addon import Addon
from .address_pool import ADDRESS_POOL

CONTROLLER, SPEAKER = "metallb-controller", "metallb-speaker"
POOL = "lab"
_FIRST_ADDRESS = 224  # of the node network, after those of nodes and virtual machines
_LAST_IPV6_ADDRESS = 254
_GROUP = "metallb.io"
_EXTENSIONS = "apiextensions.k8s.io"
_METRICS_PORT, _GOSSIP_PORT = 7472, 7946
_LINK = "eth0"  # of a node, on the lab's bridge
# Kind, versions and plural of each resource of MetalLB. The last version is stored.
_RESOURCES = (
    ("BFDProfile", ("v1beta1",), "bfdprofiles"),
    ("BGPAdvertisement", ("v1beta1",), "bgpadvertisements"),
    ("BGPPeer", ("v1beta1", "v1beta2"), "bgppeers"),
    ("Community", ("v1beta1",), "communities"),
    ("ConfigurationState", ("v1beta1",), "configurationstates"),
    ("IPAddressPool", ("v1beta1",), "ipaddresspools"),
    ("L2Advertisement", ("v1beta1",), "l2advertisements"),
    ("ServiceBGPStatus", ("v1beta1",), "servicebgpstatuses"),
    ("ServiceL2Status", ("v1beta1",), "servicel2statuses"),
)
_READ = ("get", "list", "watch")
_WRITE = (*_READ, "create", "patch", "update", "delete")
_CONTROLLER_RULES = (
    ("", ("services", "namespaces"), _READ),
    ("", ("services/status",), ("update",)),
    ("", ("events",), ("create", "patch")),
    (_GROUP, ("configurationstates", "configurationstates/status"), _WRITE),
)
_CONTROLLER_POOL_RULES = (
    (_GROUP, ("ipaddresspools", "communities"), _READ),
    (_GROUP, ("ipaddresspools/status",), ("update",)),
)
_SPEAKER_RULES = (
    ("", ("services", "namespaces", "nodes"), _READ),
    ("discovery.k8s.io", ("endpointslices",), _READ),
    ("", ("events",), ("create", "patch")),
    (
        _GROUP,
        (
            *("configurationstates", "configurationstates/status"),
            *("servicel2statuses", "servicel2statuses/status", "servicebgpstatuses", "servicebgpstatuses/status"),
        ),
        _WRITE,
    ),
)
_SPEAKER_POOL_RULES = (
    ("", ("pods",), ("get", "list")),
    ("", ("secrets", "configmaps"), _READ),  # the speaker watches them, but only uses those of BGP
    (
        _GROUP,
        (
            *("bfdprofiles", "bgpadvertisements", "bgppeers", "communities"),
            *("ipaddresspools", "l2advertisements"),
        ),
        _READ,
    ),
)


def address_ranges(lab: Mapping[str, Any]) -> list[str]:
    """First and last address for Services, for each IP family. IPv4: from the 224th address of the node network to its end, without the
    broadcast address. IPv6, whose networks are larger: the same numbers."""
    return [
        f"{network[_FIRST_ADDRESS]}-{network[-2 if network.version == 4 else _LAST_IPV6_ADDRESS]}"
        for network in parse_networks(lab["node_cidr"])
    ]


def manifests(lab: Mapping[str, Any], host: Host) -> objects.Objects:
    """The pool is the last object, so it is removed first, while the controller runs and takes the addresses from Services."""
    made: objects.Objects = {}
    for name, rules, pool_rules in (
        (CONTROLLER, _CONTROLLER_RULES, _CONTROLLER_POOL_RULES),
        (SPEAKER, _SPEAKER_RULES, _SPEAKER_POOL_RULES),
    ):
        made |= objects.service_account(name)
        made |= objects.cluster_role(name, objects.rules(rules))
        made |= objects.cluster_role_binding(name, name, name)
        made |= objects.role(name, objects.rules(pool_rules))
        made |= objects.role_binding(name, name, name)
    for kind, versions, plural in _RESOURCES:
        made |= _definition(kind, versions, plural)
    return {
        **made,
        **objects.deployment(CONTROLLER, {"app": CONTROLLER}, _controller_pod(lab)),
        **objects.daemon_set(SPEAKER, {"app": SPEAKER}, _speaker_pod()),
        **_resource("IPAddressPool", "ipaddresspools", {"addresses": address_ranges(lab)}),
        **_resource("L2Advertisement", "l2advertisements", {"ipAddressPools": [POOL], "interfaces": [_LINK]}),
    }


def _definition(kind: str, versions: tuple[str, ...], plural: str) -> objects.Objects:
    name = f"{plural}.{_GROUP}"
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        f"/apis/{_EXTENSIONS}/v1/customresourcedefinitions/{name}": {
            "apiVersion": f"{_EXTENSIONS}/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": _GROUP,
                "names": names,
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": version == versions[-1],
                        "schema": {"openAPIV3Schema": schema},
                        "subresources": {"status": {}},
                    }
                    for version in versions
                ],
            },
        }
    }


def _path(plural: str) -> str:
    return f"/apis/{_GROUP}/v1beta1/namespaces/{objects.NAMESPACE}/{plural}/{POOL}"


def _resource(kind: str, plural: str, spec: Mapping[str, Any]) -> objects.Objects:
    return {
        _path(plural): {
            "apiVersion": f"{_GROUP}/v1beta1",
            "kind": kind,
            "metadata": {"name": POOL},
            "spec": dict(spec),
        }
    }


def _controller_pod(lab: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": CONTROLLER,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *objects.needed_tolerations(lab)],
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534},
        "containers": [
            {
                **_container(CONTROLLER),
                "args": [f"--port={_METRICS_PORT}", "--webhook-mode=disabled", "--log-level=info"],
            }
        ],
    }


def _speaker_pod() -> dict[str, Any]:
    """A pod on every node, whatever its taints. It uses the node's network namespace, as it answers ARP on the node's link."""
    variables = {
        "METALLB_NODE_NAME": "spec.nodeName",
        "METALLB_POD_NAME": "metadata.name",
        "METALLB_HOST": "status.hostIP",
        "METALLB_ML_BIND_ADDR": "status.podIP",
    }
    return {
        "priorityClassName": "system-node-critical",
        "serviceAccountName": SPEAKER,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 2,  # it says good-bye to the other speakers
        "containers": [
            {
                **_container(SPEAKER),
                "args": [f"--port={_METRICS_PORT}", "--log-level=info"],
                "env": [
                    *(
                        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
                        for name, path in variables.items()
                    ),
                    {"name": "METALLB_ML_LABELS", "value": f"app={SPEAKER}"},
                    {"name": "METALLB_ML_BIND_PORT", "value": str(_GOSSIP_PORT)},
                ],
                "securityContext": objects.security_context("NET_RAW"),
            }
        ],
    }


def _container(name: str) -> dict[str, Any]:
    answers = {"httpGet": {"path": "/metrics", "port": _METRICS_PORT}}
    return {
        "name": name,
        "image": f"ballast.local/{name}:1",
        "imagePullPolicy": "Never",
        "ports": [{"name": "metrics", "containerPort": _METRICS_PORT, "protocol": "TCP"}],
        "livenessProbe": answers,
        "readinessProbe": {**answers, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "170Mi"}},
        "securityContext": objects.security_context(),
    }


LOAD_BALANCER = Addon(
    name="load_balancer",
    families=({"name": "metallb"},),
    images=(CONTROLLER, SPEAKER),
    manifests=manifests,
    workloads=(objects.workload_path("deployments", CONTROLLER), objects.workload_path("daemonsets", SPEAKER)),
    kinds={_path("ipaddresspools"): ADDRESS_POOL},
    on_bridge=True,
)
