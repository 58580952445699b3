# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backends by name: nftables/backend.py, iptables/backend.py and ipvs/backend.py.

Only the chosen one is imported: Ansible ships modules as source, and compiling and importing all three takes 0.1 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from .._core.host.host import Host
from .._core.host.names import MARK
from .backend import Backend
from .model import IPTABLES, NFTABLES


def backend_named(
    name: str,
    host: Optional[Host],
    *,
    variant: str = "",
    table: str = MARK,
    priority_offset: int = 0,
    exclude_cidrs: Sequence[str] = (),
    overdue: frozenset[str] = frozenset(),
) -> Backend:
    """`variant` is that of iptables. "" means that of `host`; `host` may be None if no kernel is read and the variant does
    not matter. Arguments that the backend does not use are ignored."""
    if name == NFTABLES:
        from .nftables.backend import Nftables

        return Nftables(table, priority_offset=priority_offset)
    from .iptables.restore import NFT, variant_in_use

    variant = variant or (NFT if host is None else variant_in_use(host))
    if name == IPTABLES:
        from .iptables.backend import Iptables

        return Iptables(variant)
    from .ipvs.backend import Ipvs

    return Ipvs(variant, exclude_cidrs=exclude_cidrs, overdue=overdue)
