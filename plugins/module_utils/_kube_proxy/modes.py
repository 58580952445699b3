# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modes of a node: those of kube-proxy, and `ballast`, in which our service proxy replaces kube-proxy."""

from __future__ import annotations

from .._rules.model import IPTABLES, IPVS, NFTABLES

KUBE_PROXY_MODES = (IPTABLES, IPVS, NFTABLES)
BALLAST = "ballast"
MODES = (*KUBE_PROXY_MODES, BALLAST)


def rules_of(mode: str) -> str:
    """The backend whose rules a mode has. Our service proxy serves what kube-proxy serves in mode nftables, and reports that
    mode."""
    return NFTABLES if mode == BALLAST else mode
