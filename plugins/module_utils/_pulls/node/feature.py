# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's limits of image pulls as a feature, for their module and for that of the whole node."""

from __future__ import annotations

from ..._core.feature import Feature
from .engine import ENGINE
from .model import SPEC, ImagePulls

FEATURE = Feature("image-pulls", spec=SPEC, desired=ImagePulls.from_params, engine=ENGINE)
