# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remedies fit: what each finding says to do, for each backend, place of reading and owner of the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.audit import (
    COMPILED,
    DUMP,
    KERNEL,
    AuditFinding,
    AuditInput,
    Facts,
    audit,
)
from ansible_collections.ballast.kube.plugins.module_utils._audit.facts import UdpConnection
from ansible_collections.ballast.kube.plugins.module_utils._audit.info import SPEC, trace_and_audit
from ansible_collections.ballast.kube.plugins.module_utils._audit.messages import CLASSES
from ansible_collections.ballast.kube.plugins.module_utils._audit.remedies import remedy_of_setting
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Message, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import Backend
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.backend import Ipvs
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Surroundings
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import Snapshot, parse_snapshot
from tests.unit.audit.foreign_texts import iptables, nftables
from tests.unit.fakes import FakeHost
from tests.unit.rules import given

PACKAGE = "ansible_collections.ballast.kube.plugins.module_utils"
UTILS = Path(__file__).resolve().parents[3] / "plugins/module_utils"
BACKENDS: dict[str, Backend] = {"nftables": Nftables("ballast"), "iptables": Iptables(), "ipvs": Ipvs()}
OWNERS = ("ballast", "kube-proxy")
NODE_IPS = ("192.0.2.10", "10.9.0.1")
AROUND = Surroundings((("eth0", NODE_IPS),))
NAT = "table ip mine {\n chain pre {\n type nat hook prerouting priority mangle; policy accept;\n tcp dport 80 dnat to 10.1.0.99\n }\n}\n"
NOTRACK = "table ip raw2 {\n chain pre {\n type filter hook prerouting priority raw; policy accept;\n tcp dport 80 notrack\n }\n}\n"
DOCKER = "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\n"
DOCKER += "-A DOCKER -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.1.0.99:80\nCOMMIT\n"
NAMES = [f"web-{number}" for number in range(6)]
DROP = {
    "nftables": "table inet guard {\n chain forward {\n type filter hook forward priority 0; policy accept;\n ip daddr 10.1.0.0/16 drop\n }\n}\n",
    "iptables": "*filter\n:FORWARD ACCEPT [0:0]\n:DOCKER-USER - [0:0]\n-A FORWARD -j DOCKER-USER\n"
    "-A DOCKER-USER -d 10.1.0.0/16 -j DROP\nCOMMIT\n",
}


def snapshot(*names: str, endpoint: str = "10.1.0.5", port: int = 80, claims: str = "") -> Snapshot:
    """Services of one TCP port each, and one of UDP; `claims` names a Service that claims the address of the first."""
    items: list[given.Object] = []
    for number, name in enumerate(names):
        address = "10.96.0.1" if name == claims else f"10.96.0.{number + 1}"
        items.append(
            given.service(
                name, clusterIP=address, clusterIPs=[address], externalIPs=["198.51.100.7"] * (name == claims)
            )
        )
        items[-1]["spec"]["ports"][0]["port"] = port
        items.append(given.endpoint_slice([given.endpoint(endpoint)], of=name))
    if claims:
        items[0]["spec"]["externalIPs"] = ["198.51.100.7"]
    udp = {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53}
    items.append(given.service("dns", clusterIP="10.96.0.200", clusterIPs=["10.96.0.200"], ports=[udp]))
    return parse_snapshot(given.snapshot(given.node(), *items), node_name="n1", node_ips=NODE_IPS)


@dataclass(frozen=True)
class Place:
    """Rules of a backend, as its owner wrote them, read from one place."""

    backend: str
    owner: str
    source: str

    def audit(
        self, of: Snapshot, against: Snapshot, facts: Optional[Facts] = None, hurt: Any = lambda rules: rules
    ) -> Iterator[AuditFinding]:
        """The audit by `against` of the rules for `of`, after `hurt`."""
        backend = BACKENDS[self.backend]
        view = of.view(4)
        config = parse_config({"clusterCIDR": "10.1.0.0/16"}, backend=self.backend, family=4, node=view.node)
        rules = hurt(backend.compile(view, config.rules))
        yield from audit(
            AuditInput(against, {4: config}, backend, {4: rules}, AROUND, self.owner, self.source), facts or Facts()
        )


PLACES = [
    Place(backend, owner, source) for backend in BACKENDS for owner in OWNERS for source in (KERNEL, DUMP, COMPILED)
]
IDS = [f"{place.backend}-{place.owner}-{place.source}" for place in PLACES]


def findings(place: Place) -> Iterator[AuditFinding]:
    """Of every kind that this place may have."""
    whole = snapshot(*NAMES)
    nothing = {"nftables": None, "iptables": Tables(4), "ipvs": IpvsRules(Tables(4))}[place.backend]
    yield from place.audit(whole, whole, hurt=lambda _rules: nothing)
    yield from place.audit(whole, whole, hurt=lambda _rules: nothing, facts=everything(place.backend))
    yield from place.audit(whole, whole, hurt=without_a_chain)
    yield from place.audit(whole, snapshot(*NAMES, endpoint="10.1.0.6"))  # all alike
    yield from place.audit(whole, snapshot(*NAMES, "more"))
    yield from place.audit(snapshot(*NAMES, "more"), whole)
    yield from place.audit(whole, snapshot(*NAMES, endpoint="10.1.0.6", port=81))
    claimed = snapshot(*NAMES, "rival", claims="rival")
    yield from place.audit(claimed, claimed)
    if place.backend == "nftables":
        yield from place.audit(whole, whole, hurt=at_another_hook)
        yield from place.audit(whole, whole, hurt=with_more_chains)
    yield from place.audit(whole, whole, facts=everything(place.backend))
    yield from place.audit(whole, whole, facts=Facts(settings=settings(place.backend, None)))
    for text in (DROP["nftables"], NAT, NAT.replace("mangle", "dstnat"), NOTRACK):
        yield from place.audit(whole, whole, facts=Facts(ruleset=nftables(text)))
    for text in (DROP["iptables"], DOCKER):
        yield from place.audit(whole, whole, facts=Facts(iptables={("legacy", 4): iptables(text)}))


def without_a_chain(rules: Any) -> Any:
    if isinstance(rules, IpvsRules):
        return replace(rules, tables=without_a_chain(rules.tables))
    if isinstance(rules, Tables):
        kept = [
            replace(table, chains=tuple(chain for chain in table.chains if chain.name != "KUBE-POSTROUTING"))
            for table in rules.tables
        ]
        return replace(rules, tables=tuple(kept))
    return replace(rules, chains={name: chain for name, chain in rules.chains.items() if name != "services"})


def at_another_hook(table: Any) -> Any:
    chain = table.chains["nat-prerouting"]
    return replace(
        table, chains={**table.chains, "nat-prerouting": replace(chain, base=replace(chain.base, priority=5))}
    )


def with_more_chains(table: Any) -> Any:
    services = table.chains["services"]
    more = {"stale-of-old": services, "hooked": replace(services, base=table.chains["nat-output"].base)}
    return replace(table, chains={**table.chains, **more})


def settings(backend: str, value: Any) -> dict[str, Any]:
    view = snapshot(*NAMES).view(4)
    config = parse_config({}, backend=backend, family=4, node=view.node).rules
    return {name: value for name, _value in BACKENDS[backend].settings(view, config)}


def everything(backend: str) -> Facts:
    udp = UdpConnection("10.96.0.200", 53, "10.1.0.9", 53, "10.1.0.8")
    gone = replace(udp, port=54)
    stale = "*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j KUBE-SVC-AAAAAAAAAAAAAAAA\n"
    stale += '-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "default/old" -j KUBE-SERVICES\nCOMMIT\n'
    return Facts(
        settings=settings(backend, "7"),
        service_tables=(("ip", "kube-proxy"), ("ip", "ballast"), ("ip", "ballast-bridge")),
        iptables={("legacy", 4): iptables(stale)},
        link=True,
        virtual_servers=("TCP  0A600001:0050 rr",),
        sets=("KUBE-CLUSTER-IP",),
        connections=(udp, gone),
        connections_problem="conntrack is not installed on this node",
        unread=(("table ip x", "line 3"),),
    )


_OF_SERVICES = {
    f"rules-audit-{end}"
    for end in ("table", "chains", "base-chain", "unknown-chain", "stale-chain", "missing", "wrong", "common", "extra")
}
# What is done at once by who pastes it, against which the remedy must say what happens to connections.
_ENDS_CONNECTIONS = {"conntrack -D": ("new connection", "nothing serves"), "virtual servers": ("ends connections",)}


def faults(found: AuditFinding, place: Place) -> Iterator[str]:
    """What is wrong with its remedy."""
    remedy = found.remedy
    is_about_nft = bool(
        re.search(r"nftables|table (ip|ip6|inet) |: type \w+ hook|rule: (ip|ip6|inet) ", found.found + found.expected)
    ) or (place.backend == "nftables" and found.id in _OF_SERVICES)
    is_about_iptables = bool(re.search(r"iptables|(^|: )-A ", found.found)) or (
        place.backend != "nftables" and found.id in _OF_SERVICES
    )
    if not remedy or "{" in remedy.replace("tcp dport {", ""):
        yield "it reports nothing"
    if not is_about_nft and re.search(r"\bnft |flush ruleset|ct (status|state)", remedy):
        yield "nft for what is not of nftables"
    if not is_about_iptables and re.search(r"\b-[AI] [A-Z]|--ctstate", remedy):
        yield "iptables for what is not of iptables"
    if place.source != KERNEL and found.id in _OF_SERVICES and re.search(r"\brestart\b|run ballast|flush|-F\b", remedy):
        yield "a change of the node for what was not read from it"
    if "lacks this setting" in found.found and "sysctl -w" in remedy:
        yield "a setting that the kernel lacks"
    if re.search(r"\b(remove|delete)s? (the|that|this) rule", remedy):
        yield "another program may need that rule"
    for does, says in _ENDS_CONNECTIONS.items():
        if (
            does in remedy + found.found
            and not any(word in remedy for word in says)
            and found.id not in ("rules-audit-foreign-nat", "rules-audit-other-backend")
        ):
            yield f"it ends connections and does not say so: {does}"


@pytest.mark.parametrize("place", PLACES, ids=IDS)
def test_a_remedy_fits_its_finding(place: Place) -> None:
    found = dict.fromkeys(findings(place))
    assert len({one.id for one in found}) > 6
    assert [(one, list(faults(one, place))) for one in found if any(faults(one, place))] == []


def test_every_class_of_findings_is_asked() -> None:
    seen = {one.id for place in PLACES for one in findings(place)}
    of_dumps = {"rules-audit-dump-part", "rules-audit-undecoded"}  # test_dump_cases.py has these
    assert sorted(set(CLASSES) - seen - of_dumps) == ["rules-audit-foreign-unclear", "rules-audit-unclear"]


@pytest.mark.parametrize("place", PLACES, ids=IDS)
def test_rules_of_another_backend_are_kept_where_those_asked_for_are_not_in_force(place: Place) -> None:
    """They may be what serves the Services: `backend` may be another than the node's mode."""
    whole = snapshot(*NAMES)
    nothing = {"nftables": None, "iptables": Tables(4), "ipvs": IpvsRules(Tables(4))}[place.backend]
    others = {"rules-audit-residue", "rules-audit-other-backend"}

    def found(of: Snapshot, hurt: Any) -> list[AuditFinding]:
        return [one for one in place.audit(of, of, hurt=hurt, facts=everything(place.backend)) if one.id in others]

    lost = found(whole, lambda _rules: nothing)
    assert {one.id for one in lost} == {"rules-audit-other-backend"}
    assert not [one for one in lost if "remove" in one.remedy or "keep these rules" not in one.remedy]
    if (place.backend, place.owner) != ("nftables", "kube-proxy"):  # which lays them out in another way
        assert {one.id for one in found(whole, lambda rules: rules)} == {"rules-audit-residue"}


@pytest.mark.parametrize(
    ("name", "exists", "remedy"),
    [
        ("net.ipv4.vs.conntrack", True, "set it: sysctl -w net.ipv4.vs.conntrack=1"),
        ("net.ipv4.vs.conntrack", False, "load its module: modprobe ip_vs; or choose another backend"),
        (
            "net.bridge.bridge-nf-call-iptables",
            False,
            "load its module: modprobe br_netfilter; or choose another backend",
        ),
        ("net.netfilter.nf_conntrack_max", False, "load its module: modprobe nf_conntrack; or choose another backend"),
        ("net.ipv4.conf.all.route_localnet", False, "boot a kernel that has it; or choose another backend"),
    ],
)
def test_a_setting_that_the_kernel_lacks_is_not_set(name: str, exists: bool, remedy: str) -> None:
    assert remedy_of_setting(name, required="1", exists=exists) == remedy


def test_the_faults_are_seen() -> None:
    """What the check above is for."""
    place = Place("iptables", "kube-proxy", DUMP)
    plain = AuditFinding("rules-audit-missing", "error", 4, "", "a packet", "pass", "")
    bad = {
        "nft add rule ip filter FORWARD ct status dnat accept": "nft for",
        "restart kube-proxy": "a change of the node",
        "trace another packet, or remove the rule": "another program",
        "conntrack -D -p udp": "it ends connections",
    }
    for remedy, fault in bad.items():
        assert any(line.startswith(fault) for line in faults(replace(plain, remedy=remedy), place)), remedy


TABLES = [
    (module, row)
    for path in sorted(UTILS.rglob("messages.py"))
    if path.relative_to(UTILS).parts[0] in ("_rules", "_audit", "_kube_proxy")
    for module in (".".join(path.relative_to(UTILS).with_suffix("").parts),)
    for row in import_module(f"{PACKAGE}.{module}").MESSAGES.rows.values()
]


@pytest.mark.parametrize(("module", "row"), TABLES, ids=[row.id for _module, row in TABLES])
def test_a_message_asks_for_nothing_that_does_harm(module: str, row: Message) -> None:
    """Ids have one remedy for every backend, unless their feature fills it in."""
    assert not re.search(r"\b(remove|delete)s? (the|that|this) rule\b", row.remedy)
    assert not re.search(r"nft flush ruleset|iptables -F|ipvsadm -C", row.remedy.replace("do not run `nft flush", ""))
    assert "sysctl -w" not in row.remedy
    if module.startswith(("_rules.iptables", "_rules.ipvs")) and row.id != "rules-iptables-hidden":
        assert not re.search(r"\bnft\b", row.remedy)
    if module.startswith("_rules.nftables"):
        assert "iptables" not in row.remedy


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dump_that_is_not_there_is_written_by_the_tools_of_its_backend(backend: str) -> None:
    params: dict[str, Any] = {option: row.get("default") for option, row in SPEC.items()}
    params.update(backend=backend, ruleset_path="/dump")
    with pytest.raises(UserError) as raised:
        trace_and_audit(FakeHost(), params)
    assert ("nft " in raised.value.remedy) == (backend == "nftables")
    assert ("iptables-save" in raised.value.remedy) == (backend != "nftables")
