# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel settings that only the old backend needed: which go back, and to what. Pure.

A setting goes back to the value that it had before, where that is recorded, or to the one that the node's configuration
files give it. Without either, to the kernel's default, but only where nothing else can want what kube-proxy set:

    route_localnet   for all links, only kube-proxy sets it (CNI and docker set it for their own links). Rules that lead
                     packets to loopback addresses need it, so it stays where another program has such a rule
    vs.*             they say how ip_vs does its work, so they matter to virtual servers alone, and stay while there are any
    arp_ignore,      operators of LVS, keepalived and nodes with several links in one network set them for themselves:
    arp_announce     never without a record
    ip_forward       never: without it no packet comes from one pod to another node
Source: reference of kube-proxy 1.6.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Optional

from ...iptables.objects import Dnat, Tables
from ...iptables.text import rule_text
from ...model import IPTABLES, IPVS
from ...record import SettingChange
from .artefact import KEPT, REMOVED, Artefact, Found, Stage

_LOCALNET = "net.ipv4.conf.all.route_localnet"
_FORWARD = "net.ipv4.ip_forward"
_VS = "net.ipv4.vs."
FILE = "/etc/sysctl.conf"
DIRECTORIES = ("/lib/sysctl.d", "/usr/lib/sysctl.d", "/usr/local/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d")


NO_RECORD: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Setting:
    name: str
    mode: str  # that sets it
    value: str  # that it sets
    default: str  # the kernel's
    may_default: bool = False  # whether it can go there without a record


SETTINGS = (
    Setting(_LOCALNET, IPTABLES, "1", "0", may_default=True),
    Setting(f"{_VS}conntrack", IPVS, "1", "0", may_default=True),
    Setting(f"{_VS}conn_reuse_mode", IPVS, "0", "1", may_default=True),
    Setting(f"{_VS}expire_nodest_conn", IPVS, "1", "0", may_default=True),
    Setting(f"{_VS}expire_quiescent_template", IPVS, "1", "0", may_default=True),
    Setting("net.ipv4.conf.all.arp_ignore", IPVS, "1", "0"),
    Setting("net.ipv4.conf.all.arp_announce", IPVS, "2", "0"),
    Setting(_FORWARD, IPVS, "1", "0"),
)


@dataclass(frozen=True)
class Known:
    """What is known of settings besides their values."""

    values: Mapping[str, Optional[str]]  # None: the kernel has no such setting
    recorded: Mapping[str, str]  # values before kube-proxy set them
    configured: Mapping[str, tuple[str, str]]  # by the node's files: value, and which file
    was_ipvs: bool  # whether anything else of ipvs is here: else it did not set what it needs
    servers_stay: str  # a virtual server that is not removed; "" where none is
    loopback_rule: str  # a rule of another program that leads to a loopback address; "" where none is


def left(known: Known, mode: str) -> Found:
    artefacts, changes = [], []
    for setting in SETTINGS:
        value = known.values.get(setting.name)
        if setting.mode == mode or value != setting.value or (setting.mode == IPVS and not known.was_ipvs):
            continue
        after, why = _after(setting, known)
        shown = f"{setting.name} = {value}"
        artefacts.append(Artefact("setting", shown, KEPT if after == value else REMOVED, why))
        if after != value:
            changes.append(SettingChange(setting.name, value, after))
    return Found(tuple(artefacts), (Stage("settings", tuple(changes)),) if changes else ())


def _after(setting: Setting, known: Known) -> tuple[str, str]:
    """The value that it is to have, and why."""
    if setting.name == _FORWARD:
        return setting.value, "packets between pods and other nodes need it in every mode"
    if setting.name in known.recorded:
        before = known.recorded[setting.name]
        return before, f"its value before kube-proxy set it is recorded: {before}"
    if setting.name in known.configured:
        value, path = known.configured[setting.name]
        return value, f"{path} gives it the value {value}"
    if not setting.may_default:
        return setting.value, "others set it too (LVS, keepalived), and its value before is not recorded"
    if setting.name == _LOCALNET and known.loopback_rule:
        return setting.value, f"a rule of another program needs it: {known.loopback_rule}"
    if setting.name.startswith(_VS) and known.servers_stay:
        return setting.value, f"virtual servers that stay go by it: {known.servers_stay}"
    return setting.default, f"only the mode {setting.mode} needs it; {setting.default} is the kernel's default"


def parse_files(files: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Of path and text of files in the order in which they are applied: sysctl.d(5). A line that is none is passed over."""
    found: dict[str, tuple[str, str]] = {}
    for path, text in files:
        for line in text.splitlines():
            key, equals, value = line.strip().partition("=")
            key = key.strip().lstrip("-").replace("/", ".")
            if equals and key and key[0] not in "#;":
                for setting in SETTINGS:
                    if fnmatch.fnmatchcase(setting.name, key):
                        found[setting.name] = (value.strip(), path)
    return found


def file_order(names: Mapping[str, Iterable[str]]) -> list[str]:
    """Paths in the order in which they are applied, of the names in each of DIRECTORIES: by name, a later directory's in the
    place of an earlier one's; then FILE."""
    chosen = {name: f"{directory}/{name}" for directory in DIRECTORIES for name in names.get(directory, ())}
    return [*(chosen[name] for name in sorted(chosen) if name.endswith(".conf")), FILE]


def leads_to_loopback(tables: Tables) -> str:
    """A rule that does so, in a chain that is not kube-proxy's."""
    for table in tables.tables:
        for chain in table.chains:
            for rule in chain.rules if not chain.name.startswith("KUBE-") else ():
                if isinstance(rule.target, Dnat) and rule.target.address.startswith("127."):
                    return f"-A {chain.name} {rule_text(rule)}"
    return ""
