# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DNS in the cluster: CoreDNS, behind the Service kube-dns.

CoreDNS forwards other names to the resolvers of the machine that makes the lab, which the lab's network can reach. Pods reach no
resolver on loopback or with a link-local IPv6 address; for a stub of systemd-resolved or dnsmasq its upstream resolvers are used.

Source of the Corefile's plugins: coredns.io/plugins; of what clients expect: the specification of DNS-based service discovery
of Kubernetes (github.com/kubernetes/dns, docs/specification.md).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..._core.host.host import Host
from ..._core.text.ip_families import is_ipv6, parse_networks, split
from ..._instance.resolvers import BEHIND_STUBS, DEFAULT
from . import objects
from .addon import Addon

NAME, SERVICE = "coredns", "kube-dns"
IMAGE = "ballast.local/coredns:1"
DOMAIN = "cluster.local"
_LABELS = {"k8s-app": "kube-dns"}  # the label by which monitoring finds it in other clusters
_ROLE = "system:coredns"
_ADDRESS = 10  # number in the Service network, as with kubeadm
_REPLICAS = 2  # one answers while the other's node is drained
_HEALTH_PORT, _READY_PORT, _METRICS_PORT = 8080, 8181, 9153
_RESOLVERS = (DEFAULT, *BEHIND_STUBS)
_MOST = 15  # resolvers that the plugin `forward` accepts
# (group, resources) that the plugin `kubernetes` watches.
_FOLLOWED = (("", ("services", "pods", "namespaces")), ("discovery.k8s.io", ("endpointslices",)))


def has_dns(lab: Mapping[str, Any]) -> bool:
    return DNS.name in lab.get("addons", ())


def cluster_dns(lab: Mapping[str, Any]) -> list[str]:
    """The addresses of the Service, one of each IP family, which kubelets write into the resolv.conf of pods."""
    return [str(network[_ADDRESS]) for network in parse_networks(lab["service_cidr"])]


def manifests(lab: Mapping[str, Any], host: Host) -> dict[str, dict[str, Any]]:
    """Objects by path, from the lab's record and the machine's resolvers."""
    rules = [
        {"apiGroups": [group], "resources": list(resources), "verbs": ["list", "watch"]}
        for group, resources in _FOLLOWED
    ]
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        {"name": "metrics", "port": _METRICS_PORT, "protocol": "TCP"},
    ]
    labels = {**_LABELS, "kubernetes.io/name": "CoreDNS"}
    return {
        **objects.service_account(NAME),
        **objects.cluster_role(_ROLE, rules),
        **objects.cluster_role_binding(_ROLE, NAME, _ROLE),
        **objects.config_map(NAME, {"Corefile": _corefile(_of_pods_families(read_resolvers(host), lab))}, _LABELS),
        **objects.deployment(NAME, _LABELS, _pod_spec(lab), replicas=min(_REPLICAS, len(lab["nodes"]))),
        **objects.service(SERVICE, labels, _LABELS, ports, **_addresses(cluster_dns(lab))),
    }


def _addresses(of_service: Sequence[str]) -> dict[str, Any]:
    """The address fields of the Service's spec."""
    if len(of_service) == 1:
        return {"clusterIP": of_service[0]}
    return {"clusterIP": of_service[0], "clusterIPs": [*of_service], "ipFamilyPolicy": "RequireDualStack"}


def read_resolvers(host: Host) -> list[str]:
    """Addresses of the machine's name servers that a pod may reach."""
    for path in _RESOLVERS:
        addresses = _name_servers((host.read(path) or b"").decode(errors="replace"))
        if addresses:
            return addresses
    return []


def _of_pods_families(resolvers: Sequence[str], lab: Mapping[str, Any]) -> list[str]:
    """Only resolvers that pods can reach: a pod with only IPv4 cannot reach an IPv6 resolver."""
    families = {is_ipv6(network) for network in split(lab["pod_cidr"])}
    return [address for address in resolvers if is_ipv6(address) in families]


def _name_servers(text: str) -> list[str]:
    """Addresses of the name servers in a resolv.conf(5), without those that only the machine reaches."""
    addresses: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver":
            continue
        with suppress(ValueError):
            address = ipaddress.ip_address(words[1])
            is_of_link = address.version == 6 and address.is_link_local  # clouds have resolvers at 169.254.0.0/16
            if not (address.is_loopback or address.is_unspecified or is_of_link):
                addresses.append(str(address))
    return addresses[:_MOST]


def _corefile(resolvers: Sequence[str]) -> str:
    forward = f"    forward . {' '.join(resolvers)}\n" if resolvers else ""
    return f"""\
.:53 {{
    errors
    health :{_HEALTH_PORT}
    ready :{_READY_PORT}
    prometheus :{_METRICS_PORT}
    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
{forward}    cache 30
    reload
    loadbalance
}}
"""


def _pod_spec(lab: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": NAME,
        "dnsPolicy": "Default",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *objects.needed_tolerations(lab)],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _LABELS},
            }
        ],
        "containers": [
            {
                "name": NAME,
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "args": ["-conf", "/etc/coredns/Corefile"],
                "ports": [
                    {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
                    {"name": "metrics", "containerPort": _METRICS_PORT, "protocol": "TCP"},
                ],
                "livenessProbe": {"httpGet": {"path": "/health", "port": _HEALTH_PORT}, "failureThreshold": 5},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": _READY_PORT}, "periodSeconds": 1},
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "170Mi"}},
                "securityContext": objects.security_context("NET_BIND_SERVICE"),
                "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    }


DNS = Addon(
    name="dns",
    families=({"name": "coredns"},),
    images=("coredns",),
    manifests=manifests,
    workloads=(objects.workload_path("deployments", NAME),),
)
