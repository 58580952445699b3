# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates that are renewed early, on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..pki.pki import paths_of

FAULT = "renewal was asked for"


def mark_for_renewal(
    resources: Sequence[Resource], values: Mapping[tuple[str, str], Value]
) -> dict[tuple[str, str], Value]:
    """The values of all certificates that an authority signed, with a fault, so that the plan replaces them.

    Authorities are kept: everyone who trusts one must get its successor before the successor signs anything.
    """
    return {
        resource.key: {**fields(values[resource.key]), "fault": FAULT}
        for resource in resources
        if resource.kind == "certificate" and len(set(paths_of(resource))) == 2 and values[resource.key] != ABSENT
    }
