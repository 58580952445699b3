# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placeholders that programs print for what they cannot decode."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.dump.reading import read_dump
from ansible_collections.ballast.kube.plugins.module_utils._audit.undecoded import find_in_iptables, find_in_nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset


def of_iptables(rule: str) -> list[str]:
    text = f"*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SEP-A - [0:0]\n-A KUBE-SEP-A {rule}\nCOMMIT\n"
    return [f"{place}: {shown}" for place, shown in find_in_iptables(read_dump(text).tables("nft", 4))]


@pytest.mark.parametrize(
    "rule",
    [
        "-p tcp -m tcp -j DNAT [unsupported revision]",  # kubernetes/kubernetes#95409
        "-m mark [unsupported revision] -j RETURN",
        "-m comment [unsupported revision] -j RETURN",
        "-p tcp -j DNAT --to-destination :0",
        "-p tcp -j DNAT --to-destination :0 --persistent --to-destination :0 --persistent",
        "-p tcp -j DNAT --to-destination 0.0.0.0",
    ],
)
def test_placeholders_of_iptables_save(rule: str) -> None:
    assert len(of_iptables(rule)) == 1
    assert "('nat', 'KUBE-SEP-A'): -A KUBE-SEP-A " in of_iptables(rule)[0]


@pytest.mark.parametrize(
    "rule",
    [
        "-p tcp -j DNAT --to-destination 10.0.0.1:80",
        "-p tcp -j DNAT --to-destination :8080",
        '-m comment --comment "[unsupported revision]" -j RETURN',
        "-m owner --uid-owner 7 -j RETURN",
    ],
)
def test_what_is_printed_whole_is_no_placeholder(rule: str) -> None:
    assert of_iptables(rule) == []


def of_nftables(text: str) -> list[tuple[tuple[str, str], str]]:
    return list(find_in_nftables(read_dump(text).nftables or Ruleset()))


def test_nft_decodes_nothing_of_xtables() -> None:
    table = """\
table ip nat {
	chain KUBE-SEP-A {
		meta l4proto tcp # xt_comment counter packets 0 bytes 0
		xt target "DNAT"
		ip saddr 10.0.0.1 counter packets 0 bytes 0 jump KUBE-MARK-MASQ
	}
	chain KUBE-MARK-MASQ {
	}
}
"""
    assert [place for place, _rule in of_nftables(table)] == [("ip nat", "KUBE-SEP-A")] * 2
    assert of_nftables(table.replace("ip nat", "ip other")) == []
    json = (
        '{"nftables": [{"table": {"family": "ip", "name": "nat"}}, {"chain": {"family": "ip", "table": "nat", "name": "A"}},'
        ' {"rule": {"family": "ip", "table": "nat", "chain": "A", "expr": [{"xt": {"type": "match", "name": "comment"}}]}}]}'
    )
    assert [place for place, _rule in of_nftables(json)] == [("ip nat", "A")]
