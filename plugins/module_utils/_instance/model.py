# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested node instances of a host, as frozen values. All input errors are raised together."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Union

from .._core.host.host import Host
from .._core.host.names import is_name, join_name, link_name
from .._core.text.errors import BallastError, Problems
from .._core.text.ip_families import (
    Address,
    Interface,
    Network,
    join,
    parse_addresses,
    parse_interfaces,
    parse_networks,
    primary,
    split,
)
from .._core.text.quantity import parse_quantity
from .messages import MESSAGES
from .node_mounts import NodeMount, check_mounts
from .oom_scores import may_lower_scores
from .proxies import Proxies, check_proxies, parse_proxies
from .registries import Mirrors, check_mirrors, parse_mirrors
from .resolvers import find_resolv_conf

KUBE_PROXY_MODES = ("nftables", "iptables", "ipvs")
BALLAST = "ballast"  # ballast-service-proxy in place of kube-proxy
PROXY_BACKENDS = (*KUBE_PROXY_MODES, BALLAST)
KUBE_PROXY, SERVICE_PROXY = "kube-proxy", "service-proxy"  # services of an instance, which has one of them
RUNTIMES = ("runc", "crun")
CREDENTIAL_FILES = tuple(  # option, and file in the directory pki
    (f"{name.replace('-', '_')}_{option}", f"{name}.{end}")
    for name in ("kubelet", "kubelet-serving", KUBE_PROXY, SERVICE_PROXY)
    for end, option in (("crt", "certificate"), ("key", "key"))
)
_STATE_DIR_MAX = 60
_PLAIN_PATH = re.compile(r"/[-A-Za-z0-9._/]+", re.ASCII)  # needs no quoting in unit files and mount tables
_PATH = re.compile(r"/[^\s\x00-\x1f\x7f]*")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
# Kubernetes' labels that a kubelet may set on its own Node; with any other it exits
# (k8s.io/kubelet/pkg/apis/well_known_labels.go).
_KUBELET_LABELS = frozenset(
    [
        *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"),
        *("beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
    ]
)
# Keys of a KubeletConfiguration that other options decide, and why.
_KUBELET_OWN = (
    (("apiVersion", "kind"), "it describes the whole file"),
    (("featureGates",), "use the option feature_gates, which kube-proxy shares"),
    (
        ("address", "authentication", "authorization", "enableServer", "tlsCertFile", "tlsPrivateKeyFile"),
        "the control plane uses it to reach the kubelet",
    ),
    (
        ("cgroupDriver", "cgroupRoot", "kubeReserved", "kubeletCgroups", "systemCgroups"),
        "pods and kubelet run in the cgroup slice of their instance",
    ),
    (("failCgroupV1",), "the host decides which version of cgroups its instances have"),
    (("registerNode",), "an instance is up when its Node is Ready"),
    (("clusterDNS", "clusterDomain", "resolvConf"), "the cluster's DNS Service determines it"),
    (("containerRuntimeEndpoint", "podLogsDir", "staticPodPath", "volumePluginDir"), "each instance has its own"),
    (
        ("evictionHard", "imageGCHighThresholdPercent", "failSwapOn"),
        "all instances share the disk and swap of their host",
    ),
    (("registerWithTaints",), "use the options taints and startup_taints"),
)
_GATE = re.compile(r"[A-Z][A-Za-z0-9]*", re.ASCII)
_KUBELET_DOMAINS = (".kubelet.kubernetes.io", ".node.kubernetes.io")
DAEMONSET = "daemonset"
KUBE_PROXIES = ("service", DAEMONSET)  # what runs it: a service of the instance, or the cluster's DaemonSet in a pod
MOST_PIDS = 2**22  # that a kernel takes for pids.max: PID_MAX_LIMIT of linux/threads.h
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class Instance:
    name: str
    address: str  # of its eth0, without prefix length; one per IP family, separated by a comma
    pod_cidr: str  # one per IP family, separated by a comma
    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]
    cpu_millis: Optional[int]  # limits of its slice; None is no limit
    memory_bytes: Optional[int]
    pids: Optional[int]
    proxy_backend: str
    runtime: str
    startup_taints: tuple[Taint, ...]  # the kubelet also registers with these, and other programs remove them
    kubelet: Mapping[str, Any] = field(default_factory=dict)  # extra keys of its KubeletConfiguration
    mounts: tuple[NodeMount, ...] = ()
    stopped: bool = False  # only its files exist
    bin_dir: str = ""  # of its programs; empty: that of the host's other instances
    kubernetes_version: str = ""  # of these programs
    kube_proxy_config: str = ""  # content of its file if another program has changed it; else the options decide

    @property
    def primary_address(self) -> str:
        """The address of the first IP family."""
        return primary(self.address)

    @property
    def proxy(self) -> str:
        """KUBE_PROXY or SERVICE_PROXY."""
        return SERVICE_PROXY if self.proxy_backend == BALLAST else KUBE_PROXY

    @property
    def credential_files(self) -> list[str]:
        """The names in CREDENTIAL_FILES that its programs use."""
        other = KUBE_PROXY if self.proxy == SERVICE_PROXY else SERVICE_PROXY
        return [name for _option, name in CREDENTIAL_FILES if name.rpartition(".")[0] != other]


@dataclass(frozen=True)
class Archive:
    """An image archive on the host, and the name and digest of each image in it."""

    path: str
    images: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class InstancesRequest:
    state: str  # "present", "stopped" or "absent"
    state_dir: str
    lab: str
    instances: tuple[Instance, ...]
    bridge: str
    gateway: str  # "10.97.0.1/24": the bridge's address, of each IP family
    api_server: str  # "https://10.97.0.1:6443"
    cluster_cidr: str
    cluster_dns: tuple[str, ...]  # name servers of pods; empty: the host's
    feature_gates: tuple[tuple[str, bool], ...]  # of kubelet and kube-proxy
    kube_proxy: str  # one of KUBE_PROXIES
    certs_dir: str  # where containerd looks for the hosts.toml of a registry
    registry_mirrors: Mirrors
    bin_dir: str
    kubernetes_version: str
    cgroup_driver: str  # "systemd" or "cgroupfs"
    ca: str  # PEM
    credentials: Mapping[str, Mapping[str, str]]  # instance -> "kubelet.crt" -> PEM
    archives: tuple[Archive, ...]
    ready_seconds: float  # deadline for all instances to become Ready
    proxies: Proxies = ()  # proxy variables of containerd
    at_boot: bool = False  # whether the host's systemd brings the instances back after a restart
    resolv_conf: str = ""  # for pods, when the host's resolvers are unreachable from a network namespace
    lowers_oom_scores: bool = False  # whether containers may have a negative OOM score

    @property
    def gateways(self) -> list[tuple[str, str]]:
        """Address and prefix length of the bridge for each IP family."""
        return [(address, length) for address, _slash, length in (text.partition("/") for text in split(self.gateway))]

    def programs_of(self, instance: Instance) -> InstancesRequest:
        """The request with the directory and version of this instance's programs."""
        version = instance.kubernetes_version or self.kubernetes_version
        return replace(self, bin_dir=instance.bin_dir or self.bin_dir, kubernetes_version=version)

    def credential(self, instance: Instance, name: str) -> str:
        """PEM text; empty before the file is made, which only a plan may see."""
        return self.credentials.get(instance.name, {}).get(name, "")

    def unit(self, instance: Instance, *parts: str) -> str:
        """The name of the instance's network namespace, or with `parts` of one of its services:
        `ballast-lab-n1-kubelet`."""
        return join_name(self.lab, instance.name, *parts)

    def cgroup(self, instance: Instance) -> str:
        """The path is one level deep: a kubelet with the systemd driver turns cgroupRoot into the slice of the same name."""
        return cgroup_of(self.lab, instance.name)

    def link(self, instance: Instance) -> str:
        """The host's end of the instance's veth pair."""
        return link_name(self.lab, instance.name)


def cgroup_of(lab: str, instance: str) -> str:
    """`ballast-lab-n1`. A - in a name becomes _, as systemd reads each - as a level of nesting."""
    return "-".join(["ballast", *(part.replace("-", "_") for part in (lab, instance))])


def desired_from_params(params: Mapping[str, Any], host: Host) -> InstancesRequest:
    """The request from the module's parameters, whose types the argument spec has checked. Raises every problem at once."""
    problems: list[BallastError] = []
    state_dir = params["state_dir"].rstrip("/")
    if not _PLAIN_PATH.fullmatch(state_dir) or len(state_dir) > _STATE_DIR_MAX:
        problems.append(MESSAGES.error("instance-state-dir", value=state_dir, limit=_STATE_DIR_MAX))
    check_name(params["lab"], "lab", problems)
    gateways = check_interfaces(params["gateway"], "gateway", problems) if params["gateway"] else ()
    if params["cluster_cidr"]:
        _check_families(
            check_networks(params["cluster_cidr"], "cluster_cidr", problems), gateways, "cluster_cidr", problems
        )
    for number, address in enumerate(params["cluster_dns"] or ()):
        check_address(address, f"cluster_dns[{number}]", problems)
    check_gates(params["feature_gates"] or {}, "feature_gates", problems)
    check_mirrors(params["registry_mirrors"] or {}, "registry_mirrors", problems)
    check_proxies(params["proxies"], problems)
    paths = [(name, params[name] or "/") for name in ("bin_dir", "certs_dir")]
    paths += [(f"archives[{n}].path", row["path"]) for n, row in enumerate(params["archives"] or [])]
    paths += [(f"instances[{n}].bin_dir", row["bin_dir"] or "/") for n, row in enumerate(params["instances"] or [])]
    problems += [
        MESSAGES.error("instance-path", path=path, value=text) for path, text in paths if not _PATH.fullmatch(text)
    ]
    rows = params["instances"] or []
    instances = tuple(_parse_instance(row, f"instances[{n}]", gateways, problems) for n, row in enumerate(rows))
    for number, instance in enumerate(instances):
        check_mounts(instance.mounts, [state_dir], f"instances[{number}].mounts", problems)
        if params["kube_proxy"] == DAEMONSET and instance.proxy_backend == BALLAST:
            problems.append(MESSAGES.error("instance-proxy-daemonset", path=f"instances[{number}].proxy_backend"))
    _check_unique([(f"instances[{n}].name", i.name, i.name) for n, i in enumerate(instances)], problems)
    addresses = [("gateway", str(gateway.ip), "the bridge") for gateway in gateways]
    addresses += [
        (f"instances[{n}].address", text, i.name) for n, i in enumerate(instances) for text in split(i.address)
    ]
    _check_unique(addresses, problems)
    networks = [("gateway", str(gateway.network), "the bridge") for gateway in gateways]
    networks += [
        (f"instances[{n}].pod_cidr", text, i.name) for n, i in enumerate(instances) for text in split(i.pod_cidr)
    ]
    _check_disjoint(networks, problems)
    credentials = {
        row["name"]: {file: row[option] or "" for option, file in CREDENTIAL_FILES}
        for row in params["credentials"] or []
    }
    Problems.raise_if(problems)
    is_systemd = host.is_systemd()
    return InstancesRequest(
        state=params["state"],
        state_dir=state_dir,
        lab=params["lab"],
        instances=instances,
        bridge=params["bridge"] or "",
        gateway=join(gateways),
        api_server=params["api_server"] or "",
        cluster_cidr=params["cluster_cidr"] or "",
        cluster_dns=tuple(params["cluster_dns"] or ()),
        feature_gates=tuple(sorted((params["feature_gates"] or {}).items())),
        kube_proxy=params["kube_proxy"],
        certs_dir=(params["certs_dir"] or f"{state_dir}/certs.d").rstrip("/"),
        registry_mirrors=parse_mirrors(params["registry_mirrors"] or {}),
        bin_dir=params["bin_dir"] or "",
        kubernetes_version=params["kubernetes_version"] or "",
        cgroup_driver=params["cgroup_driver"] or ("systemd" if is_systemd else "cgroupfs"),
        ca=params["ca"] or "",
        credentials=credentials,
        archives=tuple(
            Archive(path=row["path"], images=tuple(sorted(row["images"].items()))) for row in params["archives"] or []
        ),
        ready_seconds=params["ready_seconds"],
        proxies=parse_proxies(params["proxies"]),
        at_boot=is_systemd,
        resolv_conf=find_resolv_conf(host),
        lowers_oom_scores=may_lower_scores(host),
    )


def _parse_instance(
    row: Mapping[str, Any], path: str, gateways: Sequence[Interface], problems: list[BallastError]
) -> Instance:
    check_name(row["name"], f"{path}.name", problems)
    addresses = check_addresses(row["address"], f"{path}.address", problems)
    pods = check_networks(row["pod_cidr"], f"{path}.pod_cidr", problems)
    for option, values in (("address", addresses), ("pod_cidr", pods)):
        _check_families(values, gateways, f"{path}.{option}", problems)
    _check_inside(addresses, gateways, f"{path}.address", problems)
    labels = tuple(sorted((str(key), str(value)) for key, value in (row["labels"] or {}).items()))
    for key, value in labels:
        check_label(key, value, f"{path}.labels", problems)
    taints = _parse_taints(row, "taints", path, problems)
    check_kubelet(row["kubelet"] or {}, f"{path}.kubelet", problems)
    if row["pids"] is not None:
        _check_positive(row["pids"], row["pids"], f"{path}.pids", problems)
        if row["pids"] > MOST_PIDS:
            problems.append(MESSAGES.error("instance-pids", path=f"{path}.pids", value=row["pids"], most=MOST_PIDS))
    return Instance(
        name=row["name"],
        address=join(addresses),
        pod_cidr=join(pods),
        labels=labels,
        taints=taints,
        cpu_millis=_parse_amount(row["cpu"], f"{path}.cpu", problems, thousandths=True),
        memory_bytes=_parse_amount(row["memory"], f"{path}.memory", problems, thousandths=False),
        pids=row["pids"],
        proxy_backend=row["proxy_backend"],
        runtime=row["runtime"],
        startup_taints=_parse_taints(row, "startup_taints", path, problems),
        kubelet=row["kubelet"] or {},
        mounts=tuple(NodeMount(**mount) for mount in row["mounts"] or []),
        stopped=row["stopped"],
        bin_dir=row["bin_dir"] or "",
        kubernetes_version=row["kubernetes_version"] or "",
    )


def _parse_taints(row: Mapping[str, Any], option: str, path: str, problems: list[BallastError]) -> tuple[Taint, ...]:
    taints = tuple(Taint(key=t["key"], value=t["value"] or "", effect=t["effect"]) for t in row[option] or [])
    for taint in taints:
        check_taint(taint.key, taint.value, f"{path}.{option}", problems)
    check_taints_differ([(taint.key, taint.effect) for taint in taints], f"{path}.{option}", problems)
    return taints


def _parse_amount(text: Optional[str], path: str, problems: list[BallastError], *, thousandths: bool) -> Optional[int]:
    if not text:
        return None
    try:
        quantity = parse_quantity(text, path=path)
    except BallastError as error:
        problems.append(error)
        return None
    amount = quantity.thousandths if thousandths else quantity.whole
    _check_positive(amount, text, path, problems)
    return amount


def _check_positive(amount: int, text: object, path: str, problems: list[BallastError]) -> None:
    if amount <= 0:
        problems.append(MESSAGES.error("instance-amount", path=path, value=text))


def check_name(name: str, path: str, problems: list[BallastError]) -> None:
    """Add a problem for a name that cannot be part of names of units, links and files. `path` is the option's."""
    if not is_name(name):
        problems.append(MESSAGES.error("instance-name", path=path, name=name))


def check_label(key: str, value: str, path: str, problems: list[BallastError]) -> None:
    """Check a label that a kubelet sets on its own Node."""
    check_taint(key, value, path, problems)
    domain = key.rpartition("/")[0]
    if f".{domain}".endswith((".kubernetes.io", ".k8s.io")) and not (
        key in _KUBELET_LABELS or f".{domain}".endswith(_KUBELET_DOMAINS)
    ):
        problems.append(MESSAGES.error("instance-label-reserved", path=path, key=key))


def check_kubelet(fragment: Mapping[str, Any], path: str, problems: list[BallastError]) -> None:
    """Check a part of a KubeletConfiguration: it must not set what an instance itself needs."""
    for key in sorted(fragment):
        why = next((why for keys, why in _KUBELET_OWN if key in keys), "")
        if why:
            problems.append(MESSAGES.error("instance-kubelet-own", path=path, key=key, why=why))


def check_gates(gates: Mapping[str, Any], path: str, problems: list[BallastError]) -> None:
    """Add a problem for each entry that is not the name of a feature gate with true or false."""
    for gate, value in sorted(gates.items()):
        if not _GATE.fullmatch(gate) or not isinstance(value, bool):
            problems.append(MESSAGES.error("instance-gate", path=f"{path}.{gate}", value=value))


def check_taint(key: str, value: str, path: str, problems: list[BallastError]) -> None:
    """Add problems of a taint's, or a label's, key and value."""
    if not _LABEL_KEY.fullmatch(key):
        problems.append(MESSAGES.error("instance-label", path=path, value=key, wanted="a key such as example.org/disk"))
    if not _LABEL_VALUE.fullmatch(value):
        problems.append(MESSAGES.error("instance-label", path=f"{path}.{key}", value=value, wanted="a label's value"))


def check_taints_differ(taints: Sequence[tuple[str, str]], path: str, problems: list[BallastError]) -> None:
    """By key and effect, of which the API server takes each once: a Node with two would never be registered."""
    _check_unique(
        [
            (f"{path}[{n}]", f"{key}:{effect}", f"{path}[{taints.index((key, effect))}]")
            for n, (key, effect) in enumerate(taints)
        ],
        problems,
    )


_OF_EACH = "or one of IPv4 and one of IPv6, separated by a comma"


def check_address(text: str, path: str, problems: list[BallastError]) -> None:
    """Check one address, of one IP family."""
    with suppress(ValueError):
        if len(parse_addresses(text)) == 1:
            return
    problems.append(MESSAGES.error("instance-address", path=path, value=text, wanted="an IP address"))


def check_addresses(text: str, path: str, problems: list[BallastError]) -> tuple[Address, ...]:
    """The addresses, of one IP family or of both; empty when the text is wrong."""
    with suppress(ValueError):
        return parse_addresses(text)
    problems.append(MESSAGES.error("instance-address", path=path, value=text, wanted=f"an IP address, {_OF_EACH}"))
    return ()


def check_interfaces(text: str, path: str, problems: list[BallastError]) -> tuple[Interface, ...]:
    """The interfaces, as `check_addresses` returns addresses."""
    with suppress(ValueError):
        return parse_interfaces(text)
    form = f"an IP address with prefix length, {_OF_EACH}"
    problems.append(MESSAGES.error("instance-address", path=path, value=text, wanted=form))
    return ()


def check_network(text: str, path: str, problems: list[BallastError]) -> None:
    """Check one network, of one IP family."""
    with suppress(ValueError):
        if len(parse_networks(text)) == 1:
            return
    problems.append(MESSAGES.error("instance-address", path=path, value=text, wanted="an IP network"))


def check_networks(text: str, path: str, problems: list[BallastError]) -> tuple[Network, ...]:
    """The networks, as `check_addresses` returns addresses."""
    with suppress(ValueError):
        return parse_networks(text)
    problems.append(MESSAGES.error("instance-address", path=path, value=text, wanted=f"an IP network, {_OF_EACH}"))
    return ()


def _check_families(
    values: Sequence[Union[Address, Network]], gateways: Sequence[Interface], path: str, problems: list[BallastError]
) -> None:
    """Check that the values have the bridge's IP families, in the same order. Skipped for values that were wrong."""
    of_bridge = [gateway.version for gateway in gateways]
    if values and of_bridge and [value.version for value in values] != of_bridge:
        families = " and ".join(f"IPv{version}" for version in of_bridge)
        problems.append(MESSAGES.error("instance-families", path=path, value=join(values), wanted=families))


def _check_inside(
    addresses: Sequence[Address], gateways: Sequence[Interface], path: str, problems: list[BallastError]
) -> None:
    for address, gateway in zip(addresses, gateways):
        if address.version == gateway.version and address not in gateway.network:
            problems.append(MESSAGES.error("instance-outside", path=path, value=address, network=gateway.network))


def _check_unique(rows: Sequence[tuple[str, str, str]], problems: list[BallastError]) -> None:
    """Rows of (path, value, owner): a value with a second owner is a problem."""
    owners: dict[str, str] = {}
    for path, value, owner in rows:
        if value in owners:
            problems.append(MESSAGES.error("instance-twice", path=path, value=value, first=owners[value]))
        owners.setdefault(value, owner)


def _check_disjoint(rows: Sequence[tuple[str, str, str]], problems: list[BallastError]) -> None:
    """Rows of (path, network, owner): a network that overlaps an earlier one is a problem."""
    earlier: list[tuple[Network, str]] = []
    for path, value, owner in rows:
        network = ipaddress.ip_network(value)
        taken = [first for other, first in earlier if other.overlaps(network)]
        if taken:
            problems.append(MESSAGES.error("instance-twice", path=path, value=value, first=taken[0]))
        earlier.append((network, owner))
