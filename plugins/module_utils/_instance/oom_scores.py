# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether containers may get the OOM score that their kubelet requests.

A negative score, as pods of QoS class Guaranteed have, needs CAP_SYS_RESOURCE. Root in a container may lack it: then no such pod
would start. Source: proc_pid_oom_score_adj(5).
"""

from __future__ import annotations

import re

from .._core.host.host import Host

_CAP_SYS_RESOURCE = 24  # linux/capability.h
_EFFECTIVE = re.compile(rb"^CapEff:\s*([0-9a-f]+)$", re.MULTILINE)


def may_lower_scores(host: Host) -> bool:
    """False also where the kernel does not report the capabilities."""
    effective = _EFFECTIVE.search(host.read("/proc/self/status") or b"")
    return effective is not None and bool(int(effective[1], 16) >> _CAP_SYS_RESOURCE & 1)
