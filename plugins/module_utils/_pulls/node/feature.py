# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's limits of image pulls as a feature, for their module and for that of the whole node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.engine.feature import Feature
from ..._core.host.host import Host
from .engine import ENGINE, refuse_managed
from .model import SPEC, ImagePullsRequest


def _parse(params: Mapping[str, Any], host: Host) -> ImagePullsRequest:
    """Refuses here, not only in the plan, so that a run of several features begins none of them."""
    request = ImagePullsRequest.from_params(params)
    refuse_managed(request, host)
    return request


FEATURE = Feature("image-pulls", spec=SPEC, desired=_parse, engine=ENGINE)
