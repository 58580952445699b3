# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's kube-proxy as a feature, for its module and for that of the whole node."""

from __future__ import annotations

from ..._core.feature import Feature
from .engine import ENGINE
from .request import REQUIRED_IF, SPEC, KubeProxy

FEATURE = Feature("kube-proxy", spec=SPEC, desired=KubeProxy.from_params, engine=ENGINE, required_if=REQUIRED_IF)
