# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether this host's firewall lets pass what nodes send each other.

Docker sets the policy of FORWARD to drop. An accept of ours could not overrule it from another table (a drop ends all, an
accept only its own chain), and rules in somebody else's chain are not ours to write: so the user is told which.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from .._core.errors import BallastError, HostError
from .._core.host import Host
from .messages import MESSAGES

_SECONDS = 30
_FAMILIES = ("ip", "inet")


def forward_drops(host: Host, bridge: str) -> list[BallastError]:
    """An error for each chain at the hook forward whose policy is drop and that names `bridge` in neither direction."""
    return [*_nft_drops(host, bridge), *_legacy_drops(host, bridge)]


def _nft_drops(host: Host, bridge: str) -> Iterator[BallastError]:
    shown = host.run(["nft", "-j", "list", "chains"], timeout=_SECONDS).stdout
    try:
        chains = [row["chain"] for row in json.loads(shown)["nftables"] if "chain" in row]
        found = [
            (str(one["family"]), str(one["table"]), str(one["name"]))
            for one in chains
            if one.get("hook") == "forward" and one.get("policy") == "drop" and one["family"] in _FAMILIES
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(
            "nft -j list chains printed something else than a list of chains",
            id="core-output",
            found=repr(error),
            remedy="see what it prints; install the distribution's nftables",
            page="docs/errors.md",
        ) from error
    for chain in found:
        rules = host.run(["nft", "list", "chain", *chain], timeout=_SECONDS).stdout
        if not all(f'{side} "{bridge}"' in rules for side in ("iifname", "oifname")):
            insert = f"nft insert rule {' '.join(chain)}"
            commands = f"{insert} iifname {bridge} accept; {insert} oifname {bridge} accept"
            yield MESSAGES.error("lab-forward", chain=" ".join(chain), commands=commands)


def _legacy_drops(host: Host, bridge: str) -> Iterator[BallastError]:
    if b"filter" not in (host.read("/proc/net/ip_tables_names") or b"").split():
        return
    rules = host.run(["iptables-legacy", "-w", "-S", "FORWARD"], timeout=_SECONDS).stdout.splitlines()
    passes = all(any(f" {side} {bridge} " in rule for rule in rules) for side in ("-i", "-o"))
    if "-P FORWARD DROP" in rules and not passes:
        insert = "iptables-legacy -I FORWARD"
        commands = f"{insert} -i {bridge} -j ACCEPT; {insert} -o {bridge} -j ACCEPT"
        yield MESSAGES.error("lab-forward", chain="filter FORWARD of iptables-legacy", commands=commands)
