# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors for a node whose kubelet and runtime a distribution configures, each with that distribution's own way.

The kubelet has no flag for maxParallelImagePulls, so it cannot be set where only flags are possible.
"""

from __future__ import annotations

from ..._core.text.errors import HostError, Message
from ..._kubelet.owners import OWNERS

_TEXT = "{name} runs the kubelet of this node and writes its configuration, so nothing is changed here"
_OWNERS = [owner for owner in OWNERS if owner.image_pulls]

# The error id of each distribution.
MANAGED = {owner.name: f"pulls-node-{owner.family or owner.name}" for owner in _OWNERS}
MANAGED_ROWS = [
    Message(id=id, error=HostError, text=_TEXT, remedy=remedy)
    for id, remedy in {MANAGED[owner.name]: owner.image_pulls for owner in _OWNERS}.items()
]
