# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service proxy of a node as a feature, for its module."""

from __future__ import annotations

from ..._core.engine.feature import Feature, from_options
from .engine import ENGINE
from .request import REQUIRED_IF, SPEC, Deployment

FEATURE = Feature(
    "service-proxy", spec=SPEC, desired=from_options(Deployment.from_params), engine=ENGINE, required_if=REQUIRED_IF
)
