# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `service_rules_info` answers: what becomes of packets, and where a node's rules differ from what Services mean."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Optional, Union

from .._core.errors import BallastError, Problems
from .._core.host import Host
from .._core.names import MARK
from .backends import KUBE_PROXY_TABLE, Backend, Tracer, backend_named
from .config import ParsedConfig
from .engine import INPUT_SPEC, configs_from, snapshot_from
from .messages import MESSAGES
from .model import IPTABLES, IPVS, NFTABLES
from .packet import PROTOCOLS, Answer, Packet, Surroundings
from .parse import Snapshot
from .surroundings import FAMILIES, LINK, families, read_links, surroundings_of

if TYPE_CHECKING:
    from .auditing.findings import AuditFinding

AnyAddress = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
COMPILED, KERNEL = "compiled", "kernel"
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
    "audit": {"type": "bool", "default": False},
}


def inquire(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """The module's return values."""
    begun = time.monotonic()
    packets = parse_packets(params["packets"])
    snapshot = _snapshot(host, params)
    configs = configs_from(params["config"], params["backend"], snapshot)
    backend = _backend(host, params)
    parsed = time.monotonic()
    rules = _Rules(host, params, backend, snapshot, configs)
    around = _surroundings(host, params)
    answers = [rules.tracer(packet.family, around)(packet) for packet in packets]
    traced = time.monotonic()
    findings = rules.audited(around) if params["audit"] else ()
    return {
        "packets": [answer_told(one) for one in answers],
        "findings": [asdict(one) for one in findings],
        "seconds": {
            "parse": round(parsed - begun, 3),
            "trace": round(traced - parsed, 3),
            "audit": round(time.monotonic() - traced, 3),
        },
    }


def answer_told(answer: Answer) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(answer).items()}


def parse_packets(rows: Sequence[Mapping[str, Any]]) -> list[Packet]:
    """Problems, with every fault of every packet."""
    problems: list[BallastError] = []
    found = []
    for number, row in enumerate(rows):
        path = f"packets[{number}]"
        ends = [_address(row[name], f"{path}.{name}", problems) for name in ("source", "destination")]
        if not 1 <= row["port"] <= 65535:
            problems.append(MESSAGES.error("rules-packet", path=f"{path}.port", value=row["port"], wanted="1 to 65535"))
        if all(ends) and len({one.version for one in ends if one}) > 1:
            shown = f"{row['source']} to {row['destination']}"
            problems.append(MESSAGES.error("rules-packet", path=path, value=shown, wanted="of one family"))
        source, destination = (str(one) for one in ends)
        found.append(
            Packet(source, destination, row["port"], row["protocol"], row["inbound_interface"] or "", row["node_local"])
        )
    Problems.raise_if(problems)
    return found


def _address(text: str, path: str, problems: list[BallastError]) -> Optional[AnyAddress]:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        problems.append(MESSAGES.error("rules-packet", path=path, value=text, wanted="an address"))
        return None


class _Rules:
    """The rules that are asked, each family read or compiled when it is first needed."""

    def __init__(
        self,
        host: Host,
        params: Mapping[str, Any],
        backend: Backend,
        snapshot: Optional[Snapshot],
        configs: Mapping[int, ParsedConfig],
    ) -> None:
        self.host = host
        self.params = params
        self.backend = backend
        self.snapshot = snapshot
        self.configs = configs
        self.known: dict[int, Any] = {}
        self.tracers: dict[int, Tracer] = {}
        self.dump = _dump(host, params["ruleset_path"])

    def of(self, family: int) -> Any:
        if family not in self.known:
            self.known[family] = self._read(family)
        return self.known[family]

    def tracer(self, family: int, surroundings: Surroundings) -> Tracer:
        if family not in self.tracers:
            self.tracers[family] = self.backend.tracer(self.of(family), surroundings)
        return self.tracers[family]

    def found(self) -> Mapping[int, Any]:
        """By family, those that this node has or the dump may have."""
        return {family: self.of(family) for family in (families(self.host) if self.dump is None else FAMILIES)}

    def audited(self, surroundings: Surroundings) -> Sequence[AuditFinding]:
        # With every backend behind it, which packets do not ask.
        from .audit import Audited, audit, dump_facts, read_facts

        if self.snapshot is None:
            return ()
        owner = self.params["owner"]
        audited = Audited(self.snapshot, self.configs, self.backend, self.found(), surroundings, owner=owner)
        backend = self.params["backend"]
        facts = read_facts(self.host, backend) if self.dump is None else dump_facts(self.dump, backend)
        return audit(audited, facts)

    def _read(self, family: int) -> Any:
        if self.params["against"] == COMPILED and self.snapshot is not None:
            return self.backend.compile(self.snapshot.view(family), self.configs[family].rules)
        if self.dump is not None:
            return self.backend.parse(self.dump, family)
        return self.backend.read(self.host, family)


def _dump(host: Host, path: Optional[str]) -> Optional[str]:
    if not path:
        return None
    data = host.read(path)
    if data is None:
        raise MESSAGES.error("rules-dump-absent", path=path)
    return data.decode("utf-8", errors="replace")


def _snapshot(host: Host, params: Mapping[str, Any]) -> Optional[Snapshot]:
    """None where none was given, and none is needed."""
    if params["snapshot"] is None and params["snapshot_path"] is None:
        if params["audit"] or params["against"] == COMPILED:
            raise MESSAGES.error("rules-snapshot-needed", wanted="audit" if params["audit"] else "against: compiled")
        return None
    if not params["node_name"]:
        raise MESSAGES.error("rules-node-name")
    return snapshot_from(params, host)


def _backend(host: Host, params: Mapping[str, Any]) -> Backend:
    live = params["against"] == KERNEL and not params["ruleset_path"]
    table = KUBE_PROXY_TABLE if params["owner"] == KUBE_PROXY else params["table"]
    return backend_named(params["backend"], host if live else None, table=table)


def _surroundings(host: Host, params: Mapping[str, Any]) -> Surroundings:
    if params["node_ips"] is not None:
        return surroundings_of(params["node_ips"])
    return Surroundings(tuple(link for link in read_links(host) if link[0] != LINK))  # ipvs itself adds what is on that
