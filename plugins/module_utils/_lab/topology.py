# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a lab is to be: the request and the topology file, as values. Networks and addresses come later (`resolve`)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Optional

from .._core.errors import BallastError, Problems
from .._core.names import is_name
from .._instance.model import DAEMONSET, KUBE_PROXIES, PROXY_BACKENDS, RUNTIMES, TAINT_EFFECTS, check_label, check_taint
from .fields import Fields
from .messages import MESSAGES

TARGETS = ("host", "vm")
DEFAULT_NODES = 3
DEFAULT_PIDS = 8192
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)", re.ASCII)
_SHARE = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)
_LEAST_CPU, _LEAST_MEMORY = "10m", "128Mi"  # below it the kernel takes no quota, and a kubelet does not start
_SERVICE_PREFIXES = range(12, 29)  # what kube-apiserver takes, and room for the Services that every cluster has
_NODE_KEYS = ("labels", "taints", "share", "cpu", "memory", "pids", "proxy_backend", "runtime")
_SIZE_KEYS = ("cpu", "memory")
_KEYS = (
    *("name", "kubernetes_version", "node_cidr", "pod_cidr", "service_cidr", "kube_proxy", "balloons"),
    *("defaults", "nodes"),
)


@dataclass(frozen=True)
class NodeRequest:
    name: str
    host: Optional[str]  # None: spread
    pod_cidr: Optional[ipaddress.IPv4Network]
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    share: Optional[Fraction]  # of its host's CPU and memory
    cpu_millis: Optional[int]
    memory_bytes: Optional[int]
    pids: int
    proxy_backend: str
    runtime: str


@dataclass(frozen=True)
class Request:
    lab_dir: str
    name: str
    kubernetes_version: str
    target: str
    hosts: int  # virtual machines; 0 where the nodes are on this host
    node_cidr: Optional[ipaddress.IPv4Network]
    pod_cidr: Optional[ipaddress.IPv4Network]
    service_cidr: ipaddress.IPv4Network
    kube_proxy: str  # what runs it: one of KUBE_PROXIES
    balloons: bool  # whether nodes promise their share and no more
    nodes: tuple[NodeRequest, ...]


def parse_request(params: Mapping[str, Any]) -> Request:
    """From the module's parameters, the topology among them. Raises every problem at once.

    `nodes` counts: it takes the first of the topology's nodes, and adds nodes with the defaults where there are fewer.
    `sizes`, by name, are what nodes were given later, in place of what the topology says.
    """
    problems: list[BallastError] = []
    top = Fields(params["topology"] or {}, "", _KEYS, problems)
    name = params["name"] or top.text("name") or "lab"
    if not is_name(name):
        top.wrong("name", name, "a name of a-z, 0-9 and -, at most 40 characters")
    version = str(params["kubernetes_version"] or top.text("kubernetes_version") or "")
    match = _VERSION.fullmatch(version)
    if match is None:
        top.wrong("kubernetes_version", version, "a version such as 1.37.1")
    target = params["target"]
    request = Request(
        lab_dir=_lab_dir(params["lab_dir"], top),
        name=name,
        kubernetes_version=match.group(1) if match else "",
        target=target,
        hosts=_hosts(params["hosts"], top) if target == "vm" else 0,
        node_cidr=top.network("node_cidr"),
        pod_cidr=top.network("pod_cidr"),
        service_cidr=top.network("service_cidr") or ipaddress.IPv4Network("10.96.0.0/16"),
        kube_proxy=top.choice("kube_proxy", KUBE_PROXIES) or KUBE_PROXIES[0],
        # A size that is given later is kept by a balloon: it changes while the kubelet runs.
        balloons=params["balloons"] or bool(params["sizes"]) or top.boolean("balloons") or False,
        nodes=_resized(_nodes(top, params["nodes"], problems), params["sizes"], problems),
    )
    for key, network, least in (("node_cidr", request.node_cidr, 24), ("pod_cidr", request.pod_cidr, 16)):
        if network is not None and network.prefixlen > least:
            top.wrong(key, network, f"a network of /{least} or larger")
    if request.service_cidr.prefixlen not in _SERVICE_PREFIXES:
        top.wrong("service_cidr", request.service_cidr, "a network of /12 to /28")
    if request.kube_proxy == DAEMONSET and len({node.proxy_backend for node in request.nodes}) > 1:
        top.wrong("kube_proxy", DAEMONSET, "service where nodes differ in proxy_backend: one DaemonSet has one")
    # A fault in `defaults` is met once for each node.
    Problems.raise_if([*{str(problem): problem for problem in problems}.values()])
    return request


def _lab_dir(text: str, top: Fields) -> str:
    # Sockets lie below it, whose paths may not pass 107 characters; blanks would need quoting in unit files.
    if not re.fullmatch(r"/[-A-Za-z0-9._/]{1,53}", text, re.ASCII):
        top.wrong("lab_dir", text, "an absolute path of at most 54 letters, digits, and . _ - /")
    return text.rstrip("/")


def _hosts(count: int, top: Fields) -> int:
    if not 1 <= count <= 16:
        top.wrong("hosts", count, "a number of virtual machines from 1 to 16")
    return count


def _nodes(top: Fields, count: Optional[int], problems: list[BallastError]) -> tuple[NodeRequest, ...]:
    if count is not None and not 1 <= count <= 200:
        top.wrong("nodes", count, "a number of nodes from 1 to 200")
        return ()
    defaults = Fields(top.get("defaults") or {}, "defaults", _NODE_KEYS, problems)
    rows = [Fields(row, path, (*_NODE_KEYS, "name", "host", "pod_cidr"), problems) for path, row in top.rows("nodes")]
    wanted = count if count is not None else (len(rows) or DEFAULT_NODES)
    named = {row.text("name") for row in rows}
    spare = (f"n{number}" for number in range(1, 1000) if f"n{number}" not in named)
    rows += [
        Fields({"name": next(spare)}, f"nodes[{number}]", ("name",), problems) for number in range(len(rows), wanted)
    ]
    rows = [row for row in rows[:wanted] if row.is_mapping]
    nodes = [_node(row, defaults) for row in rows]
    seen: set[str] = set()
    for row, node in zip(rows, nodes):
        if node.name in seen:
            problems.append(MESSAGES.error("lab-node-twice", path=row.path, name=node.name))
        seen.add(node.name)
    return tuple(nodes)


def _node(row: Fields, defaults: Fields) -> NodeRequest:
    name = row.text("name") or ""
    if not is_name(name):
        row.wrong("name", name, "a name of a-z, 0-9 and -, at most 40 characters")

    def source(key: str) -> Fields:
        return row if row.given(key) else defaults

    share = source("share")
    if share.given("share") and (source("cpu").given("cpu") or source("memory").given("memory")):
        row.wrong("share", share.get("share"), "to be given with cpu or memory: it sets both")
    memory = source("memory").quantity("memory", least=_LEAST_MEMORY)
    labels = {**defaults.mapping("labels"), **row.mapping("labels")}
    for key, value in labels.items():
        check_label(key, value, (row if key in row.mapping("labels") else defaults).at("labels"), row.problems)
    return NodeRequest(
        name=name,
        host=row.text("host"),
        pod_cidr=row.network("pod_cidr"),
        labels=labels,
        taints=tuple(_taint(*taint, row.problems) for taint in source("taints").rows("taints")),
        share=_share(share),
        cpu_millis=source("cpu").quantity("cpu", least=_LEAST_CPU),
        memory_bytes=None if memory is None else memory // 1000,
        pids=source("pids").integer("pids", least=256) or DEFAULT_PIDS,
        proxy_backend=source("proxy_backend").choice("proxy_backend", PROXY_BACKENDS) or PROXY_BACKENDS[0],
        runtime=source("runtime").choice("runtime", RUNTIMES) or RUNTIMES[0],
    )


def _resized(
    nodes: tuple[NodeRequest, ...], sizes: Mapping[str, object], problems: list[BallastError]
) -> tuple[NodeRequest, ...]:
    """Sizes of nodes that have left the lab are of no account."""
    found = []
    for node in nodes:
        size = Fields(sizes.get(node.name, {}), f"sizes.{node.name}", _SIZE_KEYS, problems)
        cpu = size.quantity("cpu", least=_LEAST_CPU)
        memory = size.quantity("memory", least=_LEAST_MEMORY)
        if cpu is not None or memory is not None:
            node = replace(
                node,
                share=None,
                cpu_millis=cpu if cpu is not None else node.cpu_millis,
                memory_bytes=memory // 1000 if memory is not None else node.memory_bytes,
            )
        found.append(node)
    return tuple(found)


def _taint(path: str, row: object, problems: list[BallastError]) -> dict[str, str]:
    fields = Fields(row, path, ("key", "value", "effect"), problems)
    key, value = fields.text("key"), fields.text("value") or ""
    effect = fields.choice("effect", TAINT_EFFECTS)
    for name, wanted in (
        ("key", "a key such as example.org/dedicated"),
        ("effect", f"one of {', '.join(TAINT_EFFECTS)}"),
    ):
        if fields.is_mapping and not fields.given(name):
            fields.wrong(name, None, wanted)
    if key is not None:
        check_taint(key, value, path, problems)
    return {"key": key or "", "value": value, "effect": effect or ""}


def _share(fields: Fields) -> Optional[Fraction]:
    text = fields.text("share")
    if text is None:
        return None
    match = _SHARE.fullmatch(text)
    if match is None or int(match.group(2)) == 0 or not 0 < Fraction(text) <= 1:
        fields.wrong("share", text, "a part of the host such as 1/3")
        return None
    return Fraction(text)
