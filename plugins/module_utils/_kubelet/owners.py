# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who else manages a node's kube-proxy and kubelet, and what to use instead of this collection: one table for all features.

Signs of an owner are the distribution of the node's programs (distributions.py), links made by a program that does the work of
kube-proxy, what the kubelet reports in its Node, or the cloud's providerID together with the form of kube-proxy's pods: a
providerID alone may also be that of a kubeadm cluster in the same cloud.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .._core.text.json_text import mapping_in, rows_in
from .distributions import DISTRIBUTIONS, Distribution

_KEYS = "maxParallelImagePulls, serializeImagePulls, registryPullQPS and registryBurst"


@dataclass(frozen=True)
class Owner:
    """`kube_proxy` and `image_pulls` say what the owner offers instead; "" if the node itself has it, so that we may change it."""

    name: str  # that of its distribution, if it has one
    title: str
    source: str
    runs: str = ""  # how it implements Services, as a sentence
    kube_proxy: str = ""
    image_pulls: str = ""  # {name} stands for its name
    family: str = ""  # of owners that share one text for image_pulls
    links: tuple[str, ...] = ()  # network links of a node whose Services it implements without kube-proxy
    versions: tuple[str, ...] = ()  # parts of kubeletVersion in its Nodes
    systems: tuple[str, ...] = ()  # how osImage of its Nodes begins
    providers: tuple[str, ...] = ()  # how providerID of its Nodes begins; one of the next two must match too
    labels: tuple[str, ...] = ()  # on kube-proxy's pods or DaemonSet: KEY, or KEY=VALUE
    config_maps: tuple[str, ...] = ()  # ConfigMaps that kube-proxy's pods mount
    believed: bool = False  # not tried: known from documents and reports of others, as are the files of its test cases

    def __post_init__(self) -> None:
        if bool(self.runs) != bool(self.kube_proxy) or not (self.kube_proxy or self.image_pulls) or not self.source:
            raise ValueError(f"owner {self.name} is incomplete")

    @property
    def signs(self) -> str:
        """The signs by which it is recognized, for people."""
        distribution = next((each for each in DISTRIBUTIONS if each.name == self.name), None)
        parts = [f"link `{link}`" for link in self.links]
        parts += [f"kubeletVersion with `{part}`" for part in self.versions]
        parts += [f"osImage `{system}`" for system in self.systems]
        if self.providers:
            forms = [f"label `{label}`" for label in self.labels] + [f"ConfigMap `{name}`" for name in self.config_maps]
            parts.append(f"providerID `{self.providers[0]}` and {' or '.join(forms)}")
        if distribution is not None:
            places = (*distribution.programs, *distribution.units, *distribution.directories, *distribution.files)
            parts += [f"`{place}`" for place in dict.fromkeys(places or distribution.systems)]
        return ", ".join(parts)


def _rancher(name: str, *, runs: str, services: str) -> Owner:
    return Owner(
        name,
        title=name if name == "k3s" else "RKE2",
        runs=runs,
        kube_proxy=f"add `kube-proxy-arg: [proxy-mode=MODE]` to /etc/rancher/{name}/config.yaml of each node, then restart {services}",
        image_pulls="add `kubelet-arg: [serialize-image-pulls=false, registry-qps=5, registry-burst=10]`, with the values that you "
        "need, to /etc/rancher/{name}/config.yaml, or `kubelet-arg+: [...]` to a file of /etc/rancher/{name}/config.yaml.d. For "
        "maxParallelImagePulls, which has no flag, put a KubeletConfiguration into a *.conf file of "
        "/var/lib/rancher/{name}/agent/etc/kubelet.conf.d (1.32 and newer). For containerd, extend "
        "/var/lib/rancher/{name}/agent/etc/containerd/config.toml.tmpl (config-v3.toml.tmpl for containerd 2). Then restart the "
        "service of {name}",
        family="rancher",
        versions=(f"+{name}",),
        source=f"{name}'s page of its agent's options",
    )


OWNERS = (
    _rancher("k3s", runs="k3s runs kube-proxy in its own process", services="k3s, or k3s-agent"),
    _rancher(
        "rke2",
        runs="RKE2 runs kube-proxy in a static pod, which it writes at each start",
        services="rke2-server, or rke2-agent",
    ),
    Owner(
        "k0s",
        title="k0s",
        runs="k0s manages kube-proxy's DaemonSet and ConfigMap from its own configuration",
        kube_proxy="set spec.network.kubeProxy.mode in the k0s configuration, then restart k0s on the controllers",
        image_pulls=f"set {_KEYS} in a worker profile (spec.workerProfiles of the k0s configuration, with `k0s worker --profile`). "
        "For containerd, put a file into /etc/k0s/containerd.d. Then restart the k0s service",
        versions=("+k0s",),
        source="k0s' page of its configuration",
    ),
    Owner(
        "microk8s",
        title="MicroK8s",
        runs="MicroK8s runs kube-proxy in kubelite, its own process",
        kube_proxy="add --proxy-mode=MODE to /var/snap/microk8s/current/args/kube-proxy of each node, then restart it: microk8s stop; "
        "microk8s start",
        image_pulls="add --serialize-image-pulls=false, --registry-qps and --registry-burst to "
        "/var/snap/microk8s/current/args/kubelet (maxParallelImagePulls has no flag), and for containerd change "
        "/var/snap/microk8s/current/args/containerd-template.toml. Then restart it: microk8s stop; microk8s start",
        source="MicroK8s' page of its services",
    ),
    Owner(
        "k8s-snap",
        title="Canonical Kubernetes",
        runs="Canonical Kubernetes runs kube-proxy as a service of its snap, and writes its arguments",
        kube_proxy="give extra-node-kube-proxy-args (--proxy-mode) at `k8s bootstrap` and `k8s join-cluster`",
        image_pulls="give extra-node-kubelet-args (serialize-image-pulls, registry-qps, registry-burst; maxParallelImagePulls has no "
        "flag) and extra-node-containerd-config at `k8s bootstrap` and `k8s join-cluster`",
        source="k8s-snap's page of its bootstrap file",
    ),
    Owner(
        "microshift",
        title="MicroShift",
        runs="MicroShift has no kube-proxy: OVN-Kubernetes serves Services",
        kube_proxy="nothing to do: there is no kube-proxy to change",
        image_pulls=f"set {_KEYS} below `kubelet:` in /etc/microshift/config.yaml or a file of /etc/microshift/config.d, then restart "
        "it: systemctl restart microshift",
        source="MicroShift's page of its network",
    ),
    Owner(
        "openshift",
        title="OpenShift",
        runs="OpenShift's Cluster Network Operator serves Services with OVN-Kubernetes or the proxy of OpenShift SDN",
        kube_proxy="nothing to do with OVN-Kubernetes; with OpenShift SDN set spec.kubeProxyConfig of the Network `cluster` "
        "(network.operator.openshift.io)",
        image_pulls=f"apply a KubeletConfig (machineconfiguration.openshift.io/v1) with {_KEYS} in its spec.kubeletConfig; for CRI-O "
        "a ContainerRuntimeConfig or a MachineConfig. The Machine Config Operator writes them to the nodes",
        systems=("Red Hat Enterprise Linux CoreOS", "CentOS Stream CoreOS", "Fedora CoreOS SCOS"),
        source="OpenShift's page of the Cluster Network Operator",
    ),
    Owner(
        "minikube",
        title="minikube",
        image_pulls="start it with the settings: minikube start --extra-config=kubelet.serialize-image-pulls=false (also "
        "kubelet.registry-qps and kubelet.registry-burst; maxParallelImagePulls has no flag)",
        source="minikube's page of extra-config",
    ),
    Owner(
        "kind",
        title="kind",
        image_pulls=f"make the cluster with the settings: {_KEYS} in a KubeletConfiguration below kubeadmConfigPatches, and for "
        "containerd containerdConfigPatches, of the file for `kind create cluster --config`",
        source="kind's page of its configuration",
    ),
    Owner(
        "bottlerocket",
        title="Bottlerocket",
        image_pulls="set them through its API: apiclient set settings.kubernetes.registry-qps=5 settings.kubernetes.registry-burst=10 "
        "settings.container-runtime.max-concurrent-downloads=3",
        source="Bottlerocket's page of its settings",
    ),
    Owner(
        "talos",
        title="Talos",
        runs="Talos manages kube-proxy's DaemonSet from its machine configuration",
        kube_proxy="set cluster.proxy.mode in the machine configuration of the control plane, apply it (talosctl apply-config), and "
        "have talosctl upgrade-k8s write the DaemonSet",
        image_pulls=f"set {_KEYS} below machine.kubelet.extraConfig in the machine configuration, and for containerd a file "
        "/etc/cri/conf.d/20-customization.part below machine.files; then apply it: talosctl apply-config",
        systems=("Talos",),
        source="Talos' reference of its configuration",
    ),
    Owner(
        "eks",
        title="Amazon EKS",
        runs="Amazon EKS manages kube-proxy as an add-on, with its own form of ConfigMap",
        kube_proxy="set `mode` in the values of the add-on: aws eks update-addon --addon-name kube-proxy --configuration-values VALUES "
        "--resolve-conflicts OVERWRITE; then replace the nodes",
        providers=("aws:///", "eks-hybrid:///"),
        labels=("eks.amazonaws.com/component",),
        config_maps=("kube-proxy-config",),
        source="AWS re:Post, eks-configure-ipvs-kube-proxy; a DaemonSet of EKS 1.27",
        believed=True,
    ),
    Owner(
        "aks",
        title="Azure AKS",
        runs="Azure AKS manages kube-proxy's DaemonSet with its add-on manager",
        kube_proxy="set networkProfile.kubeProxyConfig: az aks update --kube-proxy-config FILE, whose mode is IPTABLES, IPVS or NFTABLES",
        providers=("azure:///",),
        labels=("kubernetes.azure.com/managedby=aks", "component=kube-proxy"),
        source="AKS' page configure-kube-proxy; AKS#1417",
        believed=True,
    ),
    Owner(
        "gke",
        title="Google GKE",
        runs="Google GKE writes kube-proxy's static pod when it creates a node",
        kube_proxy="keep it: GKE has no option for the mode; a cluster made with Dataplane V2 has no kube-proxy",
        versions=("-gke.",),
        providers=("gce://",),
        labels=("component=kube-proxy",),
        source="kubernetes#51292; pods of GKE 1.8",
        believed=True,
    ),
    Owner(
        "calico-ebpf",
        title="Calico's eBPF data plane",
        runs="Calico's eBPF data plane serves Services instead of kube-proxy",
        kube_proxy="keep it; or set spec.calicoNetwork.linuxDataplane of the Installation to Iptables or Nftables (without the "
        "operator: bpfEnabled: false of FelixConfiguration), and run kube-proxy again",
        links=("bpfin.cali", "bpfout.cali"),
        source="Calico's page of its eBPF data plane; felix, bpf_ep_mgr.go",
        believed=True,
    ),
    Owner(
        "cilium",
        title="Cilium",
        runs="Cilium serves Services instead of kube-proxy (kubeProxyReplacement)",
        kube_proxy="keep it; or set kubeProxyReplacement: false in its Helm values, and run kube-proxy again",
        links=("cilium_host",),
        source="Cilium's page of kubeProxyReplacement",
        believed=True,
    ),
    Owner(
        "kube-router",
        title="kube-router",
        runs="kube-router serves Services with ipvs instead of kube-proxy",
        kube_proxy="keep it; or start it with --run-service-proxy=false, and run kube-proxy again",
        links=("kube-dummy-if",),
        source="kube-router's page of its Service proxy",
        believed=True,
    ),
    Owner(
        "antrea",
        title="Antrea's proxyAll",
        runs="Antrea serves Services instead of kube-proxy (antreaProxy.proxyAll)",
        kube_proxy="keep it; or set antreaProxy.proxyAll: false in its configuration, and run kube-proxy again",
        links=("antrea-gw0",),
        source="Antrea's page of AntreaProxy",
        believed=True,
    ),
    Owner(
        "ovn-kubernetes",
        title="OVN-Kubernetes",
        runs="OVN-Kubernetes serves Services without kube-proxy",
        kube_proxy="nothing to do: there is no kube-proxy to change",
        links=("ovn-k8s-mp0",),
        source="OVN-Kubernetes' page of Services",
        believed=True,
    ),
)
_OWNERS = {owner.name: owner for owner in OWNERS}


def kube_proxy_owners() -> list[Owner]:
    """Owners on whose nodes this collection leaves kube-proxy alone."""
    return [owner for owner in OWNERS if owner.kube_proxy]


def cluster_owners() -> list[Owner]:
    """Owners that can be recognized by the API."""
    return [owner for owner in kube_proxy_owners() if owner.versions or owner.systems or owner.providers]


def owner_by_distribution(distribution: Optional[Distribution]) -> Optional[Owner]:
    """The owner of kube-proxy; None if we may change it."""
    owner = None if distribution is None else _OWNERS[distribution.name]
    return owner if owner is not None and owner.kube_proxy else None


def owner_by_links(names: Iterable[str]) -> Optional[Owner]:
    """The owner that does the work of kube-proxy on a node without it, by the names of the node's links."""
    links = set(names)
    return next((owner for owner in OWNERS if links & set(owner.links)), None)


def owner_by_nodes(nodes: Sequence[Mapping[str, Any]], item: Optional[Mapping[str, Any]]) -> Optional[Owner]:
    """The owner of kube-proxy, by the API's Nodes and by `item`, its DaemonSet or one of its pods, if there is one."""
    return next((owner for owner in cluster_owners() if any(_fits(owner, node, item) for node in nodes)), None)


def _fits(owner: Owner, node: Mapping[str, Any], item: Optional[Mapping[str, Any]]) -> bool:
    info = mapping_in(node, "status", "nodeInfo")
    version, system = str(info.get("kubeletVersion") or ""), str(info.get("osImage") or "")
    if any(part in version for part in owner.versions) or (owner.systems and system.startswith(owner.systems)):
        return True
    provider = str(mapping_in(node, "spec").get("providerID") or "")
    return (
        item is not None and bool(owner.providers) and provider.startswith(owner.providers) and _has_form(owner, item)
    )


def _has_form(owner: Owner, item: Mapping[str, Any]) -> bool:
    template = mapping_in(item, "spec", "template")
    labels = {**mapping_in(template, "metadata", "labels"), **mapping_in(item, "metadata", "labels")}
    spec = mapping_in(template, "spec") or mapping_in(item, "spec")
    mounted = {str(mapping_in(volume, "configMap").get("name")) for volume in rows_in(spec, "volumes")}
    given = {*labels, *(f"{key}={value}" for key, value in labels.items())}
    return bool(given & set(owner.labels) or mounted & set(owner.config_maps))
