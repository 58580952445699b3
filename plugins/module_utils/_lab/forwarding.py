# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether this host's firewall lets traffic between nodes pass.

Docker sets the policy of FORWARD to drop. An accept rule in our own table could not overrule it (a drop is final, an
accept ends only its own chain), and we never write rules in chains of others: so the error names the rules to add.
"""

from __future__ import annotations

from collections.abc import Iterator

from .._core.host.host import Host
from .._core.text.errors import BallastError, HostError
from .._core.text.json_text import parse_json
from .messages import MESSAGES

_SECONDS = 30
_FAMILIES = ("ip", "inet")


def find_forward_drops(host: Host, bridge: str) -> list[BallastError]:
    """An error for each chain at hook forward with policy drop that does not accept `bridge` in both directions."""
    return [*_find_nft_drops(host, bridge), *_find_legacy_drops(host, bridge)]


def _find_nft_drops(host: Host, bridge: str) -> Iterator[BallastError]:
    shown = host.run(["nft", "-j", "list", "chains"], timeout=_SECONDS).stdout
    try:
        chains = [row["chain"] for row in parse_json(shown)["nftables"] if "chain" in row]
        dropping = [
            (str(chain["family"]), str(chain["table"]), str(chain["name"]))
            for chain in chains
            if chain.get("hook") == "forward" and chain.get("policy") == "drop" and chain["family"] in _FAMILIES
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(
            "nft -j list chains did not print a list of chains",
            id="core-output",
            found=repr(error),
            remedy="see what it prints; install the distribution's nftables",
            page="docs/errors.md",
        ) from error
    for chain in dropping:
        rules = host.run(["nft", "list", "chain", *chain], timeout=_SECONDS).stdout
        if not all(f'{side} "{bridge}"' in rules for side in ("iifname", "oifname")):
            insert = f"nft insert rule {' '.join(chain)}"
            commands = f"{insert} iifname {bridge} accept; {insert} oifname {bridge} accept"
            yield MESSAGES.error("lab-forward", chain=" ".join(chain), commands=commands)


def _find_legacy_drops(host: Host, bridge: str) -> Iterator[BallastError]:
    if b"filter" not in (host.read("/proc/net/ip_tables_names") or b"").split():
        return
    rules = host.run(["iptables-legacy", "-w", "-S", "FORWARD"], timeout=_SECONDS).stdout.splitlines()
    passes = all(any(f" {side} {bridge} " in rule for rule in rules) for side in ("-i", "-o"))
    if "-P FORWARD DROP" in rules and not passes:
        insert = "iptables-legacy -I FORWARD"
        commands = f"{insert} -i {bridge} -j ACCEPT; {insert} -o {bridge} -j ACCEPT"
        yield MESSAGES.error("lab-forward", chain="filter FORWARD of iptables-legacy", commands=commands)
