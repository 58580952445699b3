# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of `service_rules_info`: traces of packets, and differences between a node's rules and its Services."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Optional, Union

from .._core.engine.former_names import formerly
from .._core.host.host import Host
from .._core.host.names import MARK
from .._core.text.errors import BallastError, Problems
from .._rules.backend import KUBE_PROXY_TABLE, Backend
from .._rules.backends import backend_named
from .._rules.config import ParsedConfig
from .._rules.engine import INPUT_SPEC, configs_from, snapshot_from, warnings_of
from .._rules.messages import MESSAGES
from .._rules.model import IPTABLES, IPVS, NFTABLES
from .._rules.node_addresses import FAMILIES, own_addresses, parse_links, read_links, surroundings_of, surroundings_with
from .._rules.packet import PROTOCOLS, Answer, Packet, Surroundings
from .._rules.parse import Snapshot
from .._rules.routes import Routes, read_routes
from .node_reading import CompiledReading, NodeReading
from .remedies import COMPILED, DUMP, KERNEL, SAVE_COMMANDS
from .tracing.packet_path import Tracer

if TYPE_CHECKING:
    from .findings import AuditFinding

AnyAddress = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
BALLAST, KUBE_PROXY = "ballast", "kube-proxy"
SPEC: dict[str, Any] = {
    **INPUT_SPEC,
    "backend": {"type": "str", "required": True, "choices": [NFTABLES, IPTABLES, IPVS]},
    "table": {"type": "str", "default": MARK},
    "against": {"type": "str", "default": KERNEL, "choices": [KERNEL, COMPILED]},
    "owner": {"type": "str", "default": BALLAST, "choices": [BALLAST, KUBE_PROXY]},
    "ruleset_path": {"type": "path"},
    "packets": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "source": {"type": "str", "required": True},
            "destination": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "protocol": {"type": "str", "required": True, "choices": list(PROTOCOLS)},
            "inbound_interface": {"type": "str", "default": ""},
            "node_local": {"type": "bool", "default": False},
        },
    },
    "audit_rules": {
        "type": "bool",
        "default": False,
        **formerly("audit"),
    },
}


def asks_kernel(params: Mapping[str, Any]) -> bool:
    """Whether the rules come from the kernel, which only root may list, and not from a file or a compiler."""
    return params["against"] == KERNEL and not params["ruleset_path"]


def trace_and_audit(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """The module's return values."""
    begun = time.monotonic()
    packets = parse_packets(params["packets"])
    dump = None if params["against"] == COMPILED else _read_dump(host, params)
    node_ips = _node_ips(params, dump)
    snapshot = _snapshot(host, params, node_ips)
    configs = configs_from(params["config"], params["backend"], snapshot)
    backend = _backend(host, params, dump)
    reading = _reading(host, params, backend, snapshot, configs, dump)
    around = _surroundings(host, node_ips, snapshot, _routes(host, params, dump))
    parsed = time.monotonic()
    tracers = {family: Tracer(reading.node_rules(family), around) for family in {packet.family for packet in packets}}
    answers = [tracers[packet.family].answer(packet) for packet in packets]
    traced = time.monotonic()
    findings = _audit(host, params, reading, snapshot, configs, backend, around) if params["audit_rules"] else ()
    return {
        "packets": [answer_as_result(answer) for answer in answers],
        "findings": [asdict(finding) for finding in findings],
        "missing": [{"part": part.part, "remedy": part.remedy} for part in reading.missing],
        "warnings": [str(warning) for warning in warnings_of(snapshot, configs, ours=params["owner"] == BALLAST)],
        "seconds": {
            "parse": round(parsed - begun, 3),
            "trace": round(traced - parsed, 3),
            "audit": round(time.monotonic() - traced, 3),
        },
    }


def answer_as_result(answer: Answer) -> dict[str, Any]:
    return {
        "verdict": answer.verdict,
        "endpoints": list(answer.endpoints),
        "masquerade": answer.masquerade,
        "masqueraded": dict(answer.masqueraded),
        "hairpin": list(answer.hairpin),
        "affinity_seconds": answer.affinity_seconds,
        "ways": [answer_as_result(way) for way in answer.ways],
        "problem": None if answer.problem is None else {"id": answer.problem.id, "text": answer.problem.text},
        "why": list(answer.why),
    }


def parse_packets(rows: Sequence[Mapping[str, Any]]) -> list[Packet]:
    """Parse the option `packets`. All problems of all packets are raised together."""
    problems: list[BallastError] = []
    packets = []
    for number, row in enumerate(rows):
        path = f"packets[{number}]"
        ends = [_address(row[name], f"{path}.{name}", problems) for name in ("source", "destination")]
        if not 1 <= row["port"] <= 65535:
            problems.append(MESSAGES.error("rules-packet", path=f"{path}.port", value=row["port"], wanted="1 to 65535"))
        if all(ends) and len({end.version for end in ends if end}) > 1:
            shown = f"{row['source']} to {row['destination']}"
            problems.append(MESSAGES.error("rules-packet", path=path, value=shown, wanted="of one family"))
        source, destination = (str(end) for end in ends)
        packets.append(
            Packet(source, destination, row["port"], row["protocol"], row["inbound_interface"] or "", row["node_local"])
        )
    Problems.raise_if(problems)
    return packets


def _address(text: str, path: str, problems: list[BallastError]) -> Optional[AnyAddress]:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        problems.append(MESSAGES.error("rules-packet", path=path, value=text, wanted="an address"))
        return None


def _reading(
    host: Host,
    params: Mapping[str, Any],
    backend: Backend,
    snapshot: Optional[Snapshot],
    configs: Mapping[int, ParsedConfig],
    dump: Optional[str],
) -> NodeReading:
    """The reading that the options ask for. Each kind is imported only if needed: compiled rules need no parsers."""
    if params["against"] == COMPILED and snapshot is not None:
        return CompiledReading(backend, snapshot, configs)
    if dump is not None:
        from .dump_reading import DumpReading

        return DumpReading(dump, backend)
    from .kernel_reading import KernelReading

    return KernelReading(host, backend)


def _audit(
    host: Host,
    params: Mapping[str, Any],
    reading: NodeReading,
    snapshot: Optional[Snapshot],
    configs: Mapping[int, ParsedConfig],
    backend: Backend,
    around: Surroundings,
) -> Sequence[AuditFinding]:
    # Imports every backend, which traces do not need.
    from .audit import AuditInput, audit
    from .facts import facts_of

    if snapshot is None:
        return ()
    rules = {family: reading.rules(family) for family in reading.families}
    source = COMPILED if params["against"] == COMPILED else DUMP if params["ruleset_path"] else KERNEL
    everything = {family: reading.node_rules(family) for family in reading.families}
    audit_input = AuditInput(
        snapshot, configs, backend, rules, around, owner=params["owner"], source=source, node_rules=everything
    )
    return audit(audit_input, facts_of(host, reading, params["backend"]))


def _read_dump(host: Host, params: Mapping[str, Any]) -> Optional[str]:
    path = params["ruleset_path"]
    if not path:
        return None
    data = host.read(path)
    if data is None:
        raise MESSAGES.error("rules-dump-absent", path=path, command=SAVE_COMMANDS[params["backend"]])
    from .dump.sections import decode

    return decode(data)


def _node_ips(params: Mapping[str, Any], dump: Optional[str]) -> Optional[Sequence[str]]:
    """The node's addresses if they are known without this host: given, or in the dump. Empty: use those of the Node object.
    None: use those of this host."""
    if params["node_ips"] is not None:
        node_ips: Sequence[str] = params["node_ips"]
        return node_ips
    if dump is not None:
        from .dump.reading import read_dump

        links = read_dump(dump).links
        if links is not None:
            return own_addresses(parse_links(links))
    return None if asks_kernel(params) else ()


def _snapshot(host: Host, params: Mapping[str, Any], node_ips: Optional[Sequence[str]]) -> Optional[Snapshot]:
    """The snapshot; None if it is neither given nor needed."""
    if params["snapshot"] is None and params["snapshot_path"] is None:
        if params["audit_rules"] or params["against"] == COMPILED:
            raise MESSAGES.error(
                "rules-snapshot-needed", wanted="audit_rules" if params["audit_rules"] else "against: compiled"
            )
        return None
    if not params["node_name"]:
        raise MESSAGES.error("rules-node-name")
    return snapshot_from({**params, "node_ips": node_ips}, host)


def _backend(host: Host, params: Mapping[str, Any], dump: Optional[str]) -> Backend:
    table = KUBE_PROXY_TABLE if params["owner"] == KUBE_PROXY else params["table"]
    if dump is None:
        return backend_named(params["backend"], host if asks_kernel(params) else None, table=table)
    from .dump.reading import read_dump

    return backend_named(params["backend"], None, table=table, variant=read_dump(dump).variant_in_use())


def _surroundings(
    host: Host, node_ips: Optional[Sequence[str]], snapshot: Optional[Snapshot], routes: Routes
) -> Surroundings:
    if node_ips is None or not (node_ips or snapshot):
        return surroundings_with(read_links(host), routes)
    if not node_ips and snapshot:
        node_ips = [address for family in FAMILIES for address in snapshot.view(family).node.addresses]
    return replace(surroundings_of(node_ips), routes=routes)


def _routes(host: Host, params: Mapping[str, Any], dump: Optional[str]) -> Routes:
    if dump is not None:
        from .dump.reading import read_dump

        return read_dump(dump).routes
    return read_routes(host) if asks_kernel(params) else ()
