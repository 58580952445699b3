# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do about a finding: by the backend, by who wrote the rules, and by where they were read. Pure.

A remedy is in the syntax of the program whose rule it is about. About a dump it says how to get a better one: what a dump
lacks, the node may have. It changes no rule of another program and no kernel setting that this kernel lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._rules.backend import KUBE_PROXY_TABLE, NFT_FAMILIES, TAKEOVER_TABLE
from .._rules.model import IPTABLES, IPVS, NFTABLES
from .._rules.packet import Packet
from .foreign_rules import ENDS, UNTRACKS, ForeignRule

KERNEL, DUMP, COMPILED = "kernel", "dump", "compiled"

# What saves everything that an audit of a backend reads.
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
# By whether it is a rule of nft: what accepts each translated connection.
ACCEPT_TRANSLATED: Mapping[bool, str] = {True: "ct status dnat accept", False: "-m conntrack --ctstate DNAT -j ACCEPT"}
# By how names of settings begin.
_MODULES = (
    ("net.ipv4.vs.", "ip_vs"),
    ("net.bridge.", "br_netfilter"),
    ("net.netfilter.nf_conntrack_", "nf_conntrack"),
)


@dataclass(frozen=True)
class Origin:
    """The audited rules: of which backend, written by whom, read from where."""

    backend: str
    owner: str  # "ballast" or "kube-proxy"
    source: str = KERNEL  # or DUMP, COMPILED

    @property
    def rewrite(self) -> str:
        """For rules of Services that are other than expected."""
        if self.source == COMPILED:
            return "report it with the snapshot: the compiled and the expected rules differ"
        if self.source == DUMP:
            return f"{self._save_again}, then audit again; differences that remain exist on the node"
        if self.owner == KUBE_PROXY_TABLE:
            return f"check that kube-proxy runs in mode {self.backend} on this node, and restart it: it then writes all its rules again"
        return "run ballast.kube.service_rules with the snapshot"

    @property
    def restore(self) -> str:
        """For rules that are missing altogether."""
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
    """For a kernel setting that the rules need."""
    if exists:
        return f"set it: sysctl -w {name}={required}"
    module = next((module for beginning, module in _MODULES if name.startswith(beginning)), "")
    how = f"load its module: modprobe {module}" if module else "boot a kernel that has it"
    return f"{how}; or choose another backend"


def rules_that_accept(packet: Packet, *, is_nft: bool) -> str:
    """Rules by which another program lets packets to Services pass, in the syntax of its own: one for chains that see the
    packet after its translation, one for those that see it before. ipvs translates later than all of them."""
    protocol = packet.protocol.lower()
    if is_nft:
        address = f"{NFT_FAMILIES[packet.family]} daddr {packet.destination}"
        before = f"{address} {protocol} dport {packet.port} accept"
    else:
        before = f"-d {packet.destination} -p {protocol} --dport {packet.port} -j ACCEPT"
    return f"`{ACCEPT_TRANSLATED[is_nft]}` if it sees packets after translation, otherwise `{before}`"


def remedy_of_translation(rule: ForeignRule, destination: str) -> str:
    """For a rule of another program that keeps packets to `destination` from kube-proxy's rules."""
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
    """For stale chains of iptables, which both writers name alike. `backends`: those that may have made them."""
    own = f"ballast.kube.service_rules with backend: {' or '.join(backends)} and state: absent"
    return f"remove them: {_RESIDUE} for kube-proxy's stale rules; {own} for its own"


def remedy_of_table(name: str) -> str:
    """For an nftables table of Services that is not in use."""
    if name in (KUBE_PROXY_TABLE, TAKEOVER_TABLE):
        return f"remove it: {_RESIDUE}"
    return "remove it: ballast.kube.service_rules with backend: nftables and state: absent"


def remedy_of_ipvs() -> str:
    """For the link, virtual servers and sets of ipvs."""
    return (
        f"remove them, which ends connections that ipvs still serves: {_RESIDUE} for kube-proxy's stale rules; "
        "ballast.kube.service_rules with backend: ipvs and state: absent for its own"
    )
