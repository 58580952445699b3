# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of other programs for tests, from what their tools print."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text


def nftables(text: str) -> Ruleset:
    return parse_text(text)


def iptables(text: str, family: int = 4) -> Tables:
    return parse(text, family=family)
