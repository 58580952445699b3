# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remedies of findings, which depend on the backend, on who wrote the rules, and on where they were read. Pure.

A remedy uses the syntax of the program that owns the rule. For a dump it says how to get a better one, because the node may
have what a dump lacks. It never changes a rule of another program, or a kernel setting that this kernel lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._rules.backend import KUBE_PROXY_TABLE, NFT_FAMILIES, TAKEOVER_TABLE
from .._rules.model import IPTABLES, IPVS, NFTABLES
from .._rules.packet import Packet
from .foreign_rules import ENDS, UNTRACKS, ForeignRule

KERNEL, DUMP, COMPILED = "kernel", "dump", "compiled"

# The commands that save everything that an audit of a backend reads.
SAVE_COMMANDS: Mapping[str, str] = {
    NFTABLES: "nft list ruleset",
    IPTABLES: "iptables-save; ip6tables-save",
    IPVS: "ipvsadm-save -n; ipset save; ip -j address; iptables-save; ip6tables-save",
}
_REMOVERS: Mapping[str, str] = {
    NFTABLES: "`flush ruleset` in a service or script",
    IPTABLES: "`iptables -F`, or iptables-restore without --noflush, in a service or script",
    IPVS: "`ipvsadm -C`, or iptables-restore without --noflush, in a service or script",
}
PRINT_BY_WRITER = (
    "print them with the program that wrote them: kubectl exec -n kube-system POD -- iptables-save, in kube-proxy's pod"
)
_RESIDUE = "ballast.kube.kube_proxy_cleanup"
# The rule that accepts every translated connection, by whether the chain is one of nft.
ACCEPT_TRANSLATED: Mapping[bool, str] = {True: "ct status dnat accept", False: "-m conntrack --ctstate DNAT -j ACCEPT"}
# Modules by prefixes of setting names.
_MODULES = (
    ("net.ipv4.vs.", "ip_vs"),
    ("net.bridge.", "br_netfilter"),
    ("net.netfilter.nf_conntrack_", "nf_conntrack"),
)


@dataclass(frozen=True)
class Origin:
    """The audited rules: their backend, who wrote them, and where they were read."""

    backend: str
    owner: str  # "ballast" or "kube-proxy"
    source: str = KERNEL  # or DUMP, COMPILED

    @property
    def rewrite(self) -> str:
        """The remedy if rules of Services differ from the expected ones."""
        if self.source == COMPILED:
            return "report it with the snapshot: the compiled and the expected rules differ"
        if self.source == DUMP:
            return f"{self._save_again}, then audit again; differences that remain exist on the node"
        if self.owner == KUBE_PROXY_TABLE:
            return f"check that kube-proxy runs in mode {self.backend} on this node, and restart it: it then writes all its rules again"
        return "run ballast.kube.service_rules with the snapshot"

    @property
    def restore(self) -> str:
        """The remedy if rules are missing altogether."""
        if self.source == COMPILED:
            return self.rewrite
        if self.source == DUMP:
            return f"check that the dump is complete: {self._save_again}; otherwise audit the node itself, without ruleset_path"
        remover = f"{_REMOVERS[self.backend]}, or a firewall that reloads its rules"
        return f"{self.rewrite}; then find what removes them: {remover}"

    @property
    def _save_again(self) -> str:
        return f"save the rules ({SAVE_COMMANDS[self.backend]}) and the snapshot again, at the same time"


def remedy_of_setting(name: str, *, required: str, exists: bool) -> str:
    """The remedy for a kernel setting that the rules need."""
    if exists:
        return f"set it: sysctl -w {name}={required}"
    module = next((module for beginning, module in _MODULES if name.startswith(beginning)), "")
    how = f"load its module: modprobe {module}" if module else "boot a kernel that has it"
    return f"{how}; or choose another backend"


def rules_that_accept(packet: Packet, *, is_nft: bool) -> str:
    """Rules with which another program lets packets to Services pass, in its own syntax: one for chains that see packets
    after translation, one for chains that see them before. ipvs translates after all of them."""
    protocol = packet.protocol.lower()
    if is_nft:
        address = f"{NFT_FAMILIES[packet.family]} daddr {packet.destination}"
        before = f"{address} {protocol} dport {packet.port} accept"
    else:
        before = f"-d {packet.destination} -p {protocol} --dport {packet.port} -j ACCEPT"
    return f"`{ACCEPT_TRANSLATED[is_nft]}` if it sees packets after translation, otherwise `{before}`"


def remedy_of_translation(rule: ForeignRule, destination: str) -> str:
    """The remedy for a rule of another program that keeps packets to `destination` from kube-proxy's rules."""
    program = rule.program or "that program"
    if rule.kind == UNTRACKS:
        return f"let {program} exclude {destination} from that rule, in its own configuration: conntrack must track translated packets"
    if rule.kind == ENDS:
        return f"let {program} exclude {destination} from that rule, or place it below the jump to KUBE-SERVICES"
    return (
        f"give the Service an address or port other than {destination}, or configure {program} to use another one; "
        "open connections keep their endpoint"
    )


def remedy_of_chains(backends: Sequence[str]) -> str:
    """The remedy for stale iptables chains, which have the same names whoever wrote them. `backends` are those that may
    have."""
    own = f"ballast.kube.service_rules with backend: {' or '.join(backends)} and state: absent"
    return f"remove them: {_RESIDUE} for kube-proxy's stale rules; {own} for its own"


def remedy_of_table(name: str) -> str:
    """The remedy for an nftables table of Services that is not in use."""
    if name in (KUBE_PROXY_TABLE, TAKEOVER_TABLE):
        return f"remove it: {_RESIDUE}"
    return "remove it: ballast.kube.service_rules with backend: nftables and state: absent"


def remedy_of_ipvs() -> str:
    """The remedy for the link, virtual servers and sets of ipvs."""
    return (
        f"remove them, which ends connections that ipvs still serves: {_RESIDUE} for kube-proxy's stale rules; "
        "ballast.kube.service_rules with backend: ipvs and state: absent for its own"
    )
