# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel settings that only the old mode needed: which are restored, and to which value. Pure.

A setting gets its recorded former value, or else the one in the node's sysctl files. Without either it gets the kernel's
default, but only if no other program can need kube-proxy's value:

    route_localnet   only kube-proxy sets it for all links (CNI and docker set it for their own). It is kept if another
                     program has a rule to a loopback address, which needs it
    vs.*             they only affect virtual servers, and are kept while there are any
    arp_ignore,      operators of LVS, keepalived and nodes with several links in one network set them too:
    arp_announce     restored only from a record
    ip_forward       never restored: packets between pods and other nodes need it
Source: kube-proxy, iptables/proxier.go and ipvs/proxier.go.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Optional

from ..._rules.iptables.objects import Dnat, Tables
from ..._rules.iptables.text import rule_text
from ..._rules.model import IPTABLES, IPVS
from ..._rules.record import SettingChange
from .artefact import KEPT, REMOVED, Artefact, CleanupPart, Stage

_LOCALNET = "net.ipv4.conf.all.route_localnet"
_FORWARD = "net.ipv4.ip_forward"
_VS = "net.ipv4.vs."
FILE = "/etc/sysctl.conf"
DIRECTORIES = ("/lib/sysctl.d", "/usr/lib/sysctl.d", "/usr/local/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d")


@dataclass(frozen=True)
class Setting:
    name: str
    mode: str  # the mode that sets it
    value: str  # the value that mode sets
    default: str  # the kernel's
    may_default: bool = False  # whether it may be reset to the default without a record


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
    """The values of the settings, and what else decides about them."""

    values: Mapping[str, Optional[str]]  # None: the kernel has no such setting
    recorded: Mapping[str, str]  # values before kube-proxy set them
    configured: Mapping[str, tuple[str, str]]  # (value, file) in the node's sysctl files
    was_ipvs: bool  # whether there are other traces of ipvs; otherwise ipvs did not set them
    servers_stay: str  # a virtual server that is kept; "" if there is none
    loopback_rule: str  # a rule of another program that leads to a loopback address; "" if there is none


def plan_settings(known: Known, mode: str) -> CleanupPart:
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
    return CleanupPart(tuple(artefacts), (Stage("settings", tuple(changes)),) if changes else ())


def _after(setting: Setting, known: Known) -> tuple[str, str]:
    """The value after the clean-up, and the reason."""
    if setting.name == _FORWARD:
        return setting.value, "packets between pods and other nodes need it in every mode"
    if setting.name in known.recorded:
        before = known.recorded[setting.name]
        return before, f"the journal has its value from before kube-proxy set it: {before}"
    if setting.name in known.configured:
        value, path = known.configured[setting.name]
        return value, f"{path} sets it to {value}"
    if not setting.may_default:
        return setting.value, "other programs set it too (LVS, keepalived), and the journal lacks its earlier value"
    if setting.name == _LOCALNET and known.loopback_rule:
        return setting.value, f"a rule of another program needs it: {known.loopback_rule}"
    if setting.name.startswith(_VS) and known.servers_stay:
        return setting.value, f"remaining virtual servers depend on it: {known.servers_stay}"
    return setting.default, f"only mode {setting.mode} needs it; {setting.default} is the kernel's default"


def parse_files(files: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """For each setting its value and the path. `files` are (path, text) in the order of sysctl.d(5). Other lines are
    ignored."""
    configured: dict[str, tuple[str, str]] = {}
    for path, text in files:
        for line in text.splitlines():
            key, equals, value = line.strip().partition("=")
            key = key.strip().lstrip("-").replace("/", ".")
            if equals and key and key[0] not in "#;":
                for setting in SETTINGS:
                    if fnmatch.fnmatchcase(setting.name, key):
                        configured[setting.name] = (value.strip(), path)
    return configured


def file_order(names: Mapping[str, Iterable[str]]) -> list[str]:
    """Paths in the order in which they are applied: by name, where a file replaces one of the same name in an earlier
    directory; FILE comes last. `names` has the file names in each of DIRECTORIES."""
    chosen = {name: f"{directory}/{name}" for directory in DIRECTORIES for name in names.get(directory, ())}
    return [*(chosen[name] for name in sorted(chosen) if name.endswith(".conf")), FILE]


def leads_to_loopback(tables: Tables) -> str:
    """A rule that leads to a loopback address, in a chain that is not kube-proxy's; "" if there is none."""
    for table in tables.tables:
        for chain in table.chains:
            for rule in chain.rules if not chain.name.startswith("KUBE-") else ():
                if isinstance(rule.target, Dnat) and rule.target.address.startswith("127."):
                    return f"-A {chain.name} {rule_text(rule)}"
    return ""
