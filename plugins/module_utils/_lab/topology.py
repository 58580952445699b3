# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested lab: options and topology file, as values. `resolve` adds networks and addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Optional

from .._control_plane.profiles.arguments import PROGRAMS, find_argument_problems
from .._control_plane.profiles.options import AUDIT_LEVELS, ENCRYPTION_PROVIDERS, NONE
from .._control_plane.request import MEMBERS, PORTS
from .._core.host.names import is_name
from .._core.text.decode import Faults, Reader, Words, Wrong, boolean, choice, whole
from .._core.text.errors import BallastError, Problems
from .._core.text.quantity import parse_quantity
from .._instance.model import (
    DAEMONSET,
    KUBE_PROXIES,
    KUBE_PROXY_MODES,
    MOST_PIDS,
    PROXY_BACKENDS,
    RUNTIMES,
    TAINT_EFFECTS,
    check_kubelet,
    check_label,
    check_taint,
    check_taints_differ,
)
from .._instance.node_mounts import NodeMount, check_mounts
from .._instance.registries import check_mirrors
from .addons.catalog import ADDONS
from .ip_family import (
    IPV4,
    IPV6,
    NODE_PODS_LEAST,
    NODES_LEAST,
    PODS_LEAST,
    Networks,
    parse_family,
    read_networks,
    read_service_networks,
)
from .messages import MESSAGES

TARGETS = ("host", "vm")
MEMBER_BYTES = 2**29  # of this host's memory, for each further member of a control plane
NO_ADDONS = "none"
DEFAULT_ADDONS = ("dns", "storage", "load_balancer")  # what an ordinary application needs
LAB, KUBEADM = BOOTSTRAPS = ("lab", "kubeadm")
DEFAULT_NODES = 3
DEFAULT_PIDS = 8192
_PUBLISHED = re.compile(r"([0-9]{1,5}):([0-9]{1,5})(?:/(tcp|udp))?", re.ASCII)
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)", re.ASCII)
_SHARE = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)
LEAST_CPU, LEAST_MEMORY = "10m", "128Mi"  # below it the kernel takes no quota, and a kubelet does not start
_NO_NODE = ("localhost", "all", "ungrouped")  # names that Ansible has given already
_NODE_KEYS = ("cpu", "kubelet", "labels", "memory", "mounts", "pids", "proxy_backend", "runtime", "share", "taints")
_SIZE_KEYS = ("cpu", "memory")
_MOUNT_KEYS = ("host", "node", "read_only")
_TAINT_KEYS = ("effect", "key", "value")
_ROW_KEYS = tuple(sorted((*_NODE_KEYS, "name", "host", "pod_cidr")))
_KEYS = (
    *("addons", "api_server", "audit", "balloons", "control_planes", "controller_manager", "defaults", "encryption"),
    *("feature_gates", "ip_family", "kube_proxy", "kubernetes_version", "name", "node_cidr", "nodes", "pod_cidr"),
    *("publish", "registry_mirrors"),
    "scheduler",
    "service_cidr",
)
# kubeadm makes each virtual machine a node, without limits, and one DaemonSet runs kube-proxy on all of them.
_KUBEADM_KEYS = (
    *("control_planes", "defaults", "kubernetes_version", "name", "node_cidr", "pod_cidr", "publish", "service_cidr"),
    "upgrade_to",
)
_KUBEADM_NODE_KEYS = ("proxy_backend",)
_WORDS = Words(MESSAGES, value="lab-value", key="lab-key", show=str, mapping="a mapping", whole="topology")


@dataclass(frozen=True)
class PublishedPort:
    """A port of this host that leads to the node port of a Service."""

    port: int
    node_port: int
    protocol: str  # tcp, udp


@dataclass(frozen=True)
class NodeRequest:
    name: str
    host: Optional[str]  # None: the host with the fewest nodes
    pod_cidr: Networks
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    share: Optional[Fraction]  # of the host's CPU and memory
    cpu_millis: Optional[int]
    memory_bytes: Optional[int]
    pids: int
    proxy_backend: str
    runtime: str
    kubelet: Mapping[str, Any]  # a part of the node's KubeletConfiguration
    mounts: tuple[NodeMount, ...]


@dataclass(frozen=True)
class TopologyRequest:
    lab_dir: str
    name: str
    kubernetes_version: str
    target: str
    bootstrap: str  # what makes the cluster: one of BOOTSTRAPS
    upgrade_to: str  # a later version that kubeadm can upgrade the cluster to, or ""
    control_planes: int  # members of the control plane, one of MEMBERS
    hosts: int  # virtual machines; 0 when the nodes are on this host
    ip_family: str  # one of IP_FAMILIES
    node_cidr: Networks  # networks that the user has given
    pod_cidr: Networks
    service_cidr: Networks  # one per family
    kube_proxy: str  # what runs it: one of KUBE_PROXIES
    audit: str  # this and the next two: as the options of the module control_plane
    encryption: str
    arguments: Mapping[str, Mapping[str, Any]]
    feature_gates: Mapping[str, bool]  # of all Kubernetes programs
    registry_mirrors: Mapping[str, Sequence[str]]  # URLs by the registry's host in image names
    publish: tuple[PublishedPort, ...]
    addons: tuple[str, ...]  # names in ADDONS
    balloons: bool  # whether nodes only offer their share
    nodes: tuple[NodeRequest, ...]


def parse_request(params: Mapping[str, Any]) -> TopologyRequest:
    """The request from the module's parameters, including the topology. Raises every problem at once.

    `nodes` decides the number: the first nodes of the topology, and further nodes with the defaults if it has fewer. `sizes`, by
    name, replace sizes of the topology, as `resize` has set them since. `service_cidr` is for a topology that names none.
    `builds`: the programs are built, not downloaded as a release.
    """
    faults = Faults(_WORDS)
    target, bootstrap = params["target"], params["bootstrap"]
    top = Reader(params["topology"] or {}, faults, known=_KUBEADM_KEYS if bootstrap == KUBEADM else _KEYS)
    name = faults.take("name", params["name"] or top.get("name") or "lab", _text, "lab")
    if not is_name(name):
        faults.wrong("name", name, "a name of a-z, 0-9 and -, at most 40 characters")
    version = str(params["kubernetes_version"] or top.read("kubernetes_version", _text, ""))
    match = _VERSION.fullmatch(version)
    if match is None:
        faults.wrong("kubernetes_version", version, "a version such as 1.37.1")
    if (target, bootstrap) == ("host", KUBEADM):
        faults.wrong(
            "bootstrap",
            bootstrap,
            "possible with target host, because kubeadm would take over this host's kubelet: set target to vm",
        )
    control_planes = top.read("control_planes", _members, 1)
    if control_planes > 1 and bootstrap == KUBEADM:
        faults.wrong(
            "control_planes",
            control_planes,
            "1, because a lab by kubeadm has one control plane member: use bootstrap lab and target host",
        )
    elif control_planes > 1 and target == "vm":
        faults.wrong(
            "control_planes", control_planes, "1 with target vm, where all members would share one host anyway"
        )
    hosts = _check_hosts(params["hosts"], faults) if target == "vm" else 0
    family = parse_family(params, top, faults)
    if control_planes > 1 and family == IPV6:
        faults.wrong(
            "control_planes",
            control_planes,
            "1 with ip_family ipv6, because members connect over IPv4 loopback addresses",
        )
    kube_proxy = DAEMONSET if bootstrap == KUBEADM else top.read("kube_proxy", choice(KUBE_PROXIES), KUBE_PROXIES[0])
    backends = KUBE_PROXY_MODES if kube_proxy == DAEMONSET else PROXY_BACKENDS
    if bootstrap == KUBEADM:
        nodes = _parse_machine_nodes(top, params["nodes"], hosts, faults, backends)
        for name in params["sizes"]:
            faults.wrong("resize", name, "allowed to set limits: with kubeadm a node is a whole virtual machine")
    else:
        nodes = _parse_nodes(top, params["nodes"], family, faults, backends)
        taken = (*_NO_NODE, *(f"vm{number}" for number in range(1, hosts + 1)))
        for number, node in enumerate(nodes):
            if node.name in taken:
                faults.wrong(f"nodes[{number}].name", node.name, "free: inventories have another host or group of it")
    request = TopologyRequest(
        lab_dir=_check_lab_dir(params["lab_dir"], faults),
        name=name,
        kubernetes_version=match.group(1) if match else "",
        target=target,
        bootstrap=bootstrap,
        upgrade_to=_parse_upgrade(top, match.group(1), faults) if match and bootstrap == KUBEADM else "",
        control_planes=control_planes,
        hosts=hosts,
        ip_family=family,
        node_cidr=read_networks(top, "node_cidr", family, least=NODES_LEAST),
        pod_cidr=read_networks(top, "pod_cidr", family, least=PODS_LEAST),
        service_cidr=read_service_networks(top, family, params["service_cidr"], faults),
        kube_proxy=kube_proxy,
        audit=top.read("audit", choice((NONE, *AUDIT_LEVELS)), NONE),
        encryption=top.read("encryption", choice((NONE, *ENCRYPTION_PROVIDERS)), NONE),
        arguments={program: top.read(program, _mapping, {}) for program in PROGRAMS},
        feature_gates=top.read("feature_gates", _mapping, {}),
        registry_mirrors=top.get("registry_mirrors") or {},
        publish=top.read("publish", _ports, ()),
        addons=_parse_addons(params, top, family, faults),
        # A lab with balloons keeps sizes that were set later: balloons change while the kubelet runs.
        balloons=params["balloons"] or bool(params["sizes"]) or top.read("balloons", boolean, False),
        nodes=_apply_sizes(nodes, params["sizes"], faults),
    )
    if request.kube_proxy == DAEMONSET and len({node.proxy_backend for node in request.nodes}) > 1:
        faults.wrong("kube_proxy", DAEMONSET, "service when nodes differ in proxy_backend: a DaemonSet has one backend")
    for node in request.nodes:
        check_mounts(node.mounts, [request.lab_dir], f"nodes.{node.name}.mounts", faults.problems)
    check_mirrors(request.registry_mirrors, "registry_mirrors", faults.problems)
    faults.problems += find_argument_problems(request.arguments, request.feature_gates, prefix="")
    # An error in `defaults` occurs once for each node.
    Problems.raise_if([*{str(problem): problem for problem in faults.problems}.values()])
    return request


def _parse_upgrade(top: Reader, version: str, faults: Faults) -> str:
    """kubeadm upgrades to a later patch release, or to the next minor release."""
    text = top.read("upgrade_to", _text, "")
    if not text:
        return ""
    match, (major, minor, patch) = _VERSION.fullmatch(text), map(int, version.split("."))
    later = tuple(map(int, match.group(1).split("."))) if match else ()
    if match is None or not (major, minor, patch) < later < (major, minor + 2):
        faults.wrong("upgrade_to", text, f"a later version of {major}.{minor}, or one of {major}.{minor + 1}")
        return ""
    return match.group(1)


def _check_lab_dir(text: str, faults: Faults) -> str:
    # The path limit of sockets below it is 107 characters; blanks would need quoting in unit files.
    if not re.fullmatch(r"/[-A-Za-z0-9._/]{1,53}", text, re.ASCII) or ".." in text.split("/"):
        faults.wrong("lab_dir", text, "an absolute path of at most 54 letters, digits, and . _ - /, without ..")
    return text.rstrip("/")


def _check_hosts(count: int, faults: Faults) -> int:
    if not 1 <= count <= 16:
        faults.wrong("hosts", count, "a number of virtual machines from 1 to 16")
    return count


def _parse_addons(params: Mapping[str, Any], top: Reader, family: str, faults: Faults) -> tuple[str, ...]:
    """Add-ons of the option, else of the topology, else the default, in the order in which they are made."""
    if params["addons"] is None:
        names = top.read("addons", _addons, _default_addons(params))
    else:
        names = faults.take("addons", list(params["addons"]), _addons, ())
    for name in names:
        if not _is_possible(name, params["target"]):
            faults.wrong(
                "addons", name, "possible with target vm: nodes in virtual machines are not on the lab's bridge"
            )
        if family == IPV6 and ADDONS[name].needs_ipv4:
            faults.wrong("addons", name, "possible with IPv6 only: image names cannot contain an IPv6 address")
    return names


def _default_addons(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The default add-ons of a new lab, without those that it cannot have."""
    return tuple(name for name in params["default_addons"] or () if _is_possible(name, params["target"]))


def _is_possible(addon: str, target: str) -> bool:
    return target == "host" or not ADDONS[addon].on_bridge


def _addons(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    if names == [NO_ADDONS]:
        return ()
    if not all(isinstance(name, str) and name in ADDONS for name in names):
        raise Wrong(f"a list of {', '.join(ADDONS)}, or {NO_ADDONS}")
    return tuple(name for name in ADDONS if name in names)


def _parse_machine_nodes(
    top: Reader, count: Optional[int], hosts: int, faults: Faults, backends: Sequence[str]
) -> tuple[NodeRequest, ...]:
    """A node for each virtual machine, with the machine's name."""
    if count not in (None, hosts):
        faults.wrong("nodes", count, f"the number of virtual machines (hosts), {hosts}: with kubeadm each is one node")
    defaults = Reader(top.get("defaults") or {}, faults, "defaults", known=_KUBEADM_NODE_KEYS)
    names = [f"vm{number}" for number in range(1, hosts + 1)]
    rows = [Reader({"name": name, "host": name}, faults, name) for name in names]
    return tuple(_parse_node(row, defaults, IPV4, backends) for row in rows)


def _parse_nodes(
    top: Reader, count: Optional[int], family: str, faults: Faults, backends: Sequence[str]
) -> tuple[NodeRequest, ...]:
    if count is not None and not 1 <= count <= 200:
        faults.wrong("nodes", count, "a number of nodes from 1 to 200")
        return ()
    defaults = Reader(top.get("defaults") or {}, faults, "defaults", known=_NODE_KEYS)
    rows = top.rows("nodes", _ROW_KEYS)
    total = count if count is not None else (len(rows) or DEFAULT_NODES)
    named = {row.read("name", _text, "") for row in rows}
    spare = (f"n{number}" for number in range(1, 1000) if f"n{number}" not in named)
    rows += [Reader({"name": next(spare)}, faults, f"nodes[{number}]") for number in range(len(rows), total)]
    rows = [row for row in rows[:total] if row.is_mapping]
    nodes = [_parse_node(row, defaults, family, backends) for row in rows]
    seen: set[str] = set()
    for row, node in zip(rows, nodes):
        if node.name in seen:
            row.faults.add("lab-node-twice", row.path, name=node.name)
        seen.add(node.name)
    return tuple(nodes)


def _parse_node(row: Reader, defaults: Reader, family: str, backends: Sequence[str]) -> NodeRequest:
    """`backends` are the allowed values of `proxy_backend`, the default first."""
    name = row.read("name", _text, "")
    if not is_name(name):
        row.wrong("name", name, "a name of a-z, 0-9 and -, at most 40 characters")

    def source(key: str) -> Reader:
        return row if row.has(key) else defaults

    share = source("share")
    if share.has("share") and (source("cpu").has("cpu") or source("memory").has("memory")):
        row.wrong("share", share.get("share"), "used together with cpu or memory: it sets both")
    memory = _parse_quantity(source("memory"), "memory", LEAST_MEMORY)
    own = _parse_texts(row, "labels")
    labels = {**_parse_texts(defaults, "labels"), **own}
    for key, value in labels.items():
        check_label(key, value, (row if key in own else defaults).at("labels"), row.faults.problems)
    fragment: dict[str, Any] = {}
    for reader in (defaults, row):
        given = reader.read("kubelet", _mapping, dict[str, Any]())
        check_kubelet(given, reader.at("kubelet"), row.faults.problems)
        fragment = {**fragment, **given}
    return NodeRequest(
        name=name,
        host=row.read("host", _text, None),
        pod_cidr=read_networks(row, "pod_cidr", family, least=NODE_PODS_LEAST),
        labels=labels,
        taints=_parse_taints(source("taints")),
        share=share.read("share", _share, None),
        cpu_millis=_parse_quantity(source("cpu"), "cpu", LEAST_CPU),
        memory_bytes=None if memory is None else memory // 1000,
        pids=source("pids").read("pids", whole(256, MOST_PIDS), DEFAULT_PIDS),
        proxy_backend=source("proxy_backend").read("proxy_backend", choice(backends), backends[0]),
        runtime=source("runtime").read("runtime", choice(RUNTIMES), RUNTIMES[0]),
        kubelet=fragment,
        mounts=tuple(
            _parse_mount(mount)
            for mount in (*defaults.rows("mounts", _MOUNT_KEYS), *row.rows("mounts", _MOUNT_KEYS))
            if mount.is_mapping
        ),
    )


def _apply_sizes(
    nodes: tuple[NodeRequest, ...], sizes: Mapping[str, object], faults: Faults
) -> tuple[NodeRequest, ...]:
    """Set the given sizes. Sizes of nodes that have left the lab are ignored."""
    resized = []
    for node in nodes:
        size = Reader(sizes.get(node.name, {}), faults, f"sizes.{node.name}", known=_SIZE_KEYS)
        cpu = _parse_quantity(size, "cpu", LEAST_CPU)
        memory = _parse_quantity(size, "memory", LEAST_MEMORY)
        if cpu is not None or memory is not None:
            node = replace(
                node,
                share=None,
                cpu_millis=cpu if cpu is not None else node.cpu_millis,
                memory_bytes=memory // 1000 if memory is not None else node.memory_bytes,
            )
        resized.append(node)
    return tuple(resized)


def _parse_taints(row: Reader) -> tuple[Mapping[str, str], ...]:
    taints = tuple(_parse_taint(taint) for taint in row.rows("taints", _TAINT_KEYS))
    check_taints_differ([(taint["key"], taint["effect"]) for taint in taints], row.at("taints"), row.faults.problems)
    return taints


def _parse_taint(row: Reader) -> dict[str, str]:
    key, value = row.read("key", _text, None), row.read("value", _text, "")
    effect = row.read("effect", choice(TAINT_EFFECTS), "")
    for name, form in (
        ("key", "a key such as example.org/dedicated"),
        ("effect", f"one of {', '.join(TAINT_EFFECTS)}"),
    ):
        if not row.has(name):
            row.wrong(name, None, form)
    if key is not None:
        check_taint(key, value, row.path, row.faults.problems)
    return {"key": key or "", "value": value, "effect": effect}


def _parse_mount(row: Reader) -> NodeMount:
    return NodeMount(
        host=row.read("host", _text, ""),
        node=row.read("node", _text, ""),
        read_only=row.read("read_only", boolean, False),
    )


def _parse_texts(row: Reader, key: str) -> dict[str, str]:
    """A mapping of names to texts."""
    values = row.below(key, expected="a mapping of names to text")
    texts = {name: row.faults.take(values.at(name), part, _label_value, None) for name, part in values.values.items()}
    return dict(sorted((str(name), part) for name, part in texts.items() if part is not None))


def _label_value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Wrong("text; put it in quotes")  # YAML reads yes as a boolean, and 1.10 as a number
    return str(value)


def _text(value: Any) -> str:
    """Accepts numbers as text, as YAML reads 2 and 0.5 as numbers."""
    if isinstance(value, str) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return str(value)
    raise Wrong("text")


def _members(value: Any) -> int:
    if isinstance(value, bool) or value not in MEMBERS:
        raise Wrong(f"one of {', '.join(map(str, MEMBERS))}")
    return int(value)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Wrong("a mapping")
    return value


def _ports(value: Any) -> tuple[PublishedPort, ...]:
    """Requires text, as YAML reads 80:30 as a number of base 60."""
    rows = value if isinstance(value, list) else [value]
    matches = [_PUBLISHED.fullmatch(row) if isinstance(row, str) else None for row in rows]
    if not isinstance(value, list) or not all(
        match and all(0 < int(match[place]) < 2**16 for place in (1, 2)) for match in matches
    ):
        raise Wrong('a list of ports of this host and node ports in quotes, such as "8080:30080" or "53:30053/udp"')
    ports = tuple(PublishedPort(int(match[1]), int(match[2]), match[3] or "tcp") for match in matches if match)
    if len({(port.port, port.protocol) for port in ports}) < len(ports):
        raise Wrong("a list that contains each port of this host once")
    if any(port.protocol == "tcp" and port.port in PORTS.values() for port in ports):
        of_plane = ", ".join(map(str, PORTS.values()))
        raise Wrong(f"a list without {of_plane}, on which the control plane listens on this host")
    return ports


def _parse_quantity(row: Reader, key: str, least: str) -> Optional[int]:
    """The quantity in thousandths of a unit."""

    def parse(value: Any) -> Optional[int]:
        quantity = parse_quantity(_text(value), path=row.at(key))
        if quantity < parse_quantity(least):
            raise Wrong(f"at least {least}")
        return quantity.thousandths

    try:
        return row.read(key, parse, None)
    except BallastError as error:
        row.faults.problems.append(error)
        return None


def _share(value: Any) -> Fraction:
    match = _SHARE.fullmatch(_text(value))
    if match is None or int(match[2]) == 0 or not 0 < Fraction(match[0]) <= 1:
        raise Wrong("a part of the host such as 1/3")
    return Fraction(match[0])
