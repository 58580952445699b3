# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The features that answer the questionnaire, in the order of the report."""

from __future__ import annotations

from .._balloon.readiness import FEATURE as BALLOONS
from .._core.readiness import Feature
from .._instance.readiness import FEATURE as NODE_INSTANCES
from .._plane.readiness import FEATURE as CONTROL_PLANE
from .._proxy.readiness import FEATURE as KUBE_PROXY
from .._pulls.deployment.readiness import FEATURE as IMAGE_PULL_PROXY
from .._pulls.node.readiness import FEATURE as IMAGE_PULLS

FEATURES: tuple[Feature, ...] = (KUBE_PROXY, IMAGE_PULLS, IMAGE_PULL_PROXY, BALLOONS, NODE_INSTANCES, CONTROL_PLANE)
