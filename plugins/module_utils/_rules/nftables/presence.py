# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds out which tables and chains the kernel has, without reading their contents."""

from __future__ import annotations

from typing import Optional

from ..._core.host.host import KERNEL_LIMIT, Host

_SECONDS = 300  # time limit of one nft command


def has_table(host: Host, family: str, table: str) -> bool:
    return list_chains(host, family, table) is not None


def list_chains(host: Host, family: str, table: str) -> Optional[list[str]]:
    """The names of a table's chains; None if the kernel has no such table.

    `nft list chains` lists every table, including those without chains. `nft list tables` of nft 1.0.6 would first fetch all
    elements of all tables."""
    lines = host.run(["nft", "list", "chains", family], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout.splitlines()
    head = f"table {family} {table} {{"
    if head not in lines:
        return None
    names = []
    for line in lines[lines.index(head) + 1 :]:
        if line == "}":
            break
        words = line.split()
        if words[:1] == ["chain"] and line.startswith("\tchain "):
            names.append(words[1])
    return names
