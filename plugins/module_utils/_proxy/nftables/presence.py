# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the kernel has a table: for those who need to know no more of one."""

from __future__ import annotations

from ..._core.host import Host

_SECONDS = 300  # a limit to what the kernel may take


def is_there(host: Host, family: str, table: str) -> bool:
    """Asked for chains, nft names every table, also one without any. Asked for tables, nft 1.0.6 first fetches each element
    of each of them, which are many."""
    listed = host.run(["nft", "list", "chains", family], timeout=_SECONDS).stdout
    return f"table {family} {table} {{" in listed.splitlines()
