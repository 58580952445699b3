# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which version may serve data that another version served before.

Rule: Kubernetes' version skew policy (https://kubernetes.io/releases/version-skew-policy): an API server is upgraded from one
minor version to the next. Versions of one minor store data alike, so a patch release may also be reverted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Optional

from ..._core.host.host import Host
from ..._core.text.errors import BallastError
from ..._core.text.json_text import parse_json
from ..profiles.profiles import EXISTING, FULL
from ..record import record_path
from ..request import ABSENT_STATE, STOPPED, ControlPlaneRequest
from .messages import MESSAGES
from .restore_note import PLACING, load_note

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.\d{1,4}", re.ASCII)


def find_version_problem(*, version: str, served: str, path: str) -> Optional[BallastError]:
    """Why `version` must not serve data that `served` served last; both are X.Y.Z. None when it may."""
    new, old = _minor(version), _minor(served)
    if new is None or old is None or new in (old, (old[0], old[1] + 1)):
        return None
    if new < old:
        return MESSAGES.error("plane-downgrade", version=version, served=served, path=path)
    between = f"{old[0]}.{old[1] + 1}"
    return MESSAGES.error("plane-version-jump", version=version, served=served, path=path, between=between)


def read_last_version(host: Host, state_dir: str) -> Optional[str]:
    """The version that last served the existing data, or the backup's for restored data; None when there is no data."""
    note = load_note(host, state_dir)
    if note is not None:
        return note.kubernetes_version
    try:
        # Read without `load_record`, as records of earlier versions of this collection count too.
        previous = parse_json(host.read(record_path(state_dir)) or b"")
        elsewhere = previous.get("choice", {}).get("etcd") == EXISTING
        has_data = elsewhere or host.stat(f"{state_dir}/etcd/member") is not None
        return str(previous["kubernetes_version"]) if has_data else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def desired_from_params(params: Mapping[str, Any], host: Host) -> ControlPlaneRequest:
    """The request. A request to stop keeps the version that last served the data: a stop upgrades nothing, and a version that
    never ran must not be recorded as the one that served it."""
    served = read_last_version(host, params["state_dir"]) if params["state"] == STOPPED else None
    return ControlPlaneRequest.from_params({**params, "kubernetes_version": served} if served else params)


def find_data_problems(desired: ControlPlaneRequest, host: Host) -> list[BallastError]:
    """Why the existing data must not be served as requested, or is incomplete."""
    if desired.state == ABSENT_STATE:
        return []
    note = load_note(host, desired.state_dir)
    if note is not None and note.stage == PLACING:
        return [MESSAGES.error("plane-restore-unfinished", path=desired.state_dir)]
    served = read_last_version(host, desired.state_dir)
    if served is None:
        return []
    problem = find_version_problem(version=desired.kubernetes_version, served=served, path=desired.state_dir)
    if problem is not None:
        return [problem]
    if note is not None and note.members != desired.members:
        return [MESSAGES.error("plane-restore-members", value=desired.members, restored=note.members)]
    if note is not None and desired.profile == FULL and note.service_network not in ("", desired.service_cidr):
        value, network = desired.service_cidr, note.service_network
        return [MESSAGES.error("plane-restore-network", value=value, found_network=network)]
    return []


def _minor(version: str) -> Optional[tuple[int, int]]:
    match = _VERSION.fullmatch(version)
    return None if match is None else (int(match[1]), int(match[2]))
