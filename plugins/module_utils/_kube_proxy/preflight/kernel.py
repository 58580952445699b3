# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the node's kernel supports: its modules, and rules that it checks without loading them.

`nft --check` decides: the kernel checks a rule as if to load it, and loads the necessary modules. Lists of modules explain a
refusal, and replace the check if nft is missing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..._core.host.host import Host
from ..._core.host.names import join_name
from ..._core.text.errors import BallastError, CommandFailed, Unavailable
from ..._rules.backend import NFT_FAMILIES
from ..._rules.model import FamilyView, RuleConfig
from ..._rules.nftables import transaction
from ..._rules.nftables.backend import Nftables

LOADED, BUILT_IN, LOADABLE, ABSENT, UNKNOWN = "loaded", "built in", "loadable", "absent", "not known"
IPVS_LISTING = "/proc/net/ip_vs"
IPVS_MODULES = ("ip_vs", "ip_set", "dummy")  # and one for the scheduler, such as ip_vs_rr
_SECONDS = 300
_TABLE = join_name("preflight")


class Probe(NamedTuple):
    """A statement of kube-proxy's nftables rules. `{family}` is ipv4 or ipv6, `{target}` an address and a port."""

    module: str
    chain: str
    statement: str


PROBES = (
    Probe("nft_ct", "forwarded", "ct state new"),
    Probe("nft_nat", "arriving", "meta l4proto tcp dnat to {target}"),
    Probe("nft_masq", "leaving", "masquerade fully-random"),
    Probe("nft_numgen", "forwarded", "numgen random mod 2 vmap {{ 0 : accept, 1 : accept }}"),
    Probe("nft_reject_{family}", "forwarded", "reject"),
    Probe("nft_fib_{family}", "forwarded", "fib daddr type local"),
)
_CHAINS = (
    ("arriving", "type nat hook prerouting priority -100;"),
    ("leaving", "type nat hook postrouting priority 100;"),
    ("forwarded", "type filter hook forward priority 0;"),
)
_TARGETS = {4: "192.0.2.1:80", 6: "[2001:db8::1]:80"}
_BASE_MODULES = ("nf_tables", "nf_conntrack")


def refused_statements(host: Host, families: Iterable[int], modules: Mapping[str, str]) -> tuple[str, ...]:
    """Statements of kube-proxy's nftables rules that the kernel refuses. Empty without nft, which another check reports."""
    return tuple(line for family in families for line in _refusals(host, family, modules))


def _refusals(host: Host, family: int, modules: Mapping[str, str]) -> Iterator[str]:
    """Checks all statements at once first, because most kernels refuse none."""
    try:
        if not _problem(host, _probe_text(family, PROBES)):
            return
        base = _problem(host, _probe_text(family, ()))
        if base:
            yield f"IPv{family}: a table with base chains: {base} ({_states(_BASE_MODULES, modules)})"
            return
        for probe in PROBES:
            problem = _problem(host, _probe_text(family, (probe,)))
            if problem:
                name = _module(probe, family)
                yield f"IPv{family}: {_statement(probe, family)}: {problem} ({_states((name,), modules)})"
    except Unavailable:
        return


def _problem(host: Host, text: str) -> str:
    """The first line of nft's error; "" if nft accepts the text."""
    try:
        host.run(["nft", "--check", "-f", "-"], stdin=text.encode(), timeout=_SECONDS)
    except CommandFailed as failed:
        lines = [line for line in failed.output.splitlines() if line.strip()]
        return lines[0].rpartition("Error: ")[2] if lines else f"nft ended with status {failed.status}"
    return ""


def _probe_text(family: int, probes: Iterable[Probe]) -> str:
    table = f"{NFT_FAMILIES[family]} {_TABLE}"
    lines = [f"add table {table}", *(f"add chain {table} {name} {{ {hook} }}" for name, hook in _CHAINS)]
    lines += [f"add rule {table} {probe.chain} {_statement(probe, family)}" for probe in probes]
    return "".join(f"{line}\n" for line in lines)


def _statement(probe: Probe, family: int) -> str:
    return probe.statement.format(target=_TARGETS[family])


def _module(probe: Probe, family: int) -> str:
    return probe.module.format(family=f"ipv{family}")


def _states(names: Iterable[str], modules: Mapping[str, str]) -> str:
    return ", ".join(f"module {name}: {modules.get(name, UNKNOWN)}" for name in names)


def refused_rules(
    host: Host, views: Mapping[int, FamilyView], configs: Mapping[int, RuleConfig], families: Iterable[int]
) -> tuple[str, ...]:
    """A line for each family whose takeover table, compiled from the snapshot, is refused by nft or the kernel. Empty
    without nft."""
    refusals = []
    backend = Nftables(_TABLE, priority_offset=-1, dscp_bypass=True)  # the same options as the takeover table
    for family in families:
        if family not in configs:
            continue
        table = backend.compile(views[family], configs[family])
        try:
            transaction.check(transaction.plan(table, None), host)
        except Unavailable:
            return ()
        except BallastError as error:
            refusals.append(f"IPv{family}: {error.found or error.text}")
    return tuple(refusals)


# Modules


def nftables_modules() -> tuple[str, ...]:
    """The modules behind PROBES, for both families."""
    of_probes = [_module(probe, family) for probe in PROBES for family in (4, 6)]
    return tuple(dict.fromkeys((*_BASE_MODULES, *of_probes)))


def read_modules(host: Host, release: str, names: Iterable[str]) -> dict[str, str]:
    """The state of each module. Without /lib/modules/RELEASE no module can be loaded, and whether one is built in is known
    only for ip_vs, which is visible in /proc."""
    root = f"/lib/modules/{release}"
    known = host.stat(root) is not None
    loaded = parse_modules(_text(host, "/proc/modules"))
    built_in = parse_module_paths(_text(host, f"{root}/modules.builtin"))
    loadable = parse_module_paths(_text(host, f"{root}/modules.dep"))
    ipvs = host.read(IPVS_LISTING) is not None

    def state(name: str) -> str:
        if name in built_in:
            return BUILT_IN
        if name in loaded or (name == "ip_vs" and ipvs) or host.stat(f"/sys/module/{name}") is not None:
            return LOADED
        if name in loadable:
            return LOADABLE
        return ABSENT if known or name == "ip_vs" else UNKNOWN

    return {name: state(name) for name in names}


def parse_modules(text: str) -> frozenset[str]:
    """The names of loaded modules, from /proc/modules."""
    return frozenset(line.split()[0] for line in text.splitlines() if line.strip())


def parse_module_paths(text: str) -> frozenset[str]:
    """Module names in the kernel's spelling, from lines of modules.builtin and modules.dep such as
    `kernel/net/netfilter/nft-ct.ko.xz: ...`."""
    paths = [line.partition(":")[0].strip() for line in text.splitlines()]
    return frozenset(posixpath.basename(path).partition(".ko")[0].replace("-", "_") for path in paths if path)


def _text(host: Host, path: str) -> str:
    return (host.read(path) or b"").decode(errors="replace")
