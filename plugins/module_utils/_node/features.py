# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The features of a node, by the names of their modules, in the order in which a run handles them.

The pull proxy comes before image_pulls, which points a kubelet at its socket. kube-proxy comes last: if its change takes the node
off the network, the other features are done, and do not use up the time in which the change must be confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._core.engine.feature import Feature
from .._kube_proxy.feature import FEATURE as KUBE_PROXY
from .._pulls.deployment.feature import FEATURE as IMAGE_PULL_PROXY
from .._pulls.node.feature import FEATURE as IMAGE_PULLS

FEATURES: Mapping[str, Feature[Any]] = {
    "image_pull_proxy": IMAGE_PULL_PROXY,
    "image_pulls": IMAGE_PULLS,
    "kube_proxy": KUBE_PROXY,
}
