# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which version may serve data that another version served last.

Rule: Kubernetes' version skew policy (https://kubernetes.io/releases/version-skew-policy): an API server is upgraded from one
minor version to the next. Versions of one minor store alike, so a patch release may also be taken back.
"""

from __future__ import annotations

import json
import re
from typing import Optional

from ..._core.errors import BallastError
from ..._core.host import Host
from ..desired import ABSENT_STATE, ControlPlane
from ..profiles import EXISTING, FULL
from ..record import record_path
from .messages import MESSAGES
from .note import PLACING, load_note

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.\d{1,4}", re.ASCII)


def version_problem(*, wanted: str, served: str, path: str) -> Optional[BallastError]:
    """Why `wanted` must not serve what `served` served last; both are X.Y.Z. None when it may."""
    new, old = _minor(wanted), _minor(served)
    if new is None or old is None or new in (old, (old[0], old[1] + 1)):
        return None
    if new < old:
        return MESSAGES.error("plane-downgrade", version=wanted, served=served, path=path)
    between = f"{old[0]}.{old[1] + 1}"
    return MESSAGES.error("plane-version-jump", version=wanted, served=served, path=path, between=between)


def last_served(host: Host, state_dir: str) -> Optional[str]:
    """The version that last served the data that is there; None when there is none. Restored data counts with its own."""
    note = load_note(host, state_dir)
    if note is not None:
        return note.kubernetes_version
    try:
        # Read as it is: a record in the form of an earlier version of this collection counts too.
        found = json.loads(host.read(record_path(state_dir)) or b"")
        elsewhere = found.get("choice", {}).get("etcd") == EXISTING
        has_data = elsewhere or host.stat(f"{state_dir}/etcd/member") is not None
        return str(found["kubernetes_version"]) if has_data else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def refuse_unfit_data(desired: ControlPlane, host: Host) -> None:
    """Raise when the data that is there is not to be served as desired, or is not whole."""
    if desired.state == ABSENT_STATE:
        return
    note = load_note(host, desired.state_dir)
    if note is not None and note.stage == PLACING:
        raise MESSAGES.error("plane-restore-unfinished", path=desired.state_dir)
    served = last_served(host, desired.state_dir)
    if served is None:
        return
    problem = version_problem(wanted=desired.kubernetes_version, served=served, path=desired.state_dir)
    if problem is not None:
        raise problem
    if note is not None and desired.profile == FULL and note.service_network not in ("", desired.service_cidr):
        raise MESSAGES.error("plane-restore-network", value=desired.service_cidr, found_network=note.service_network)


def _minor(version: str) -> Optional[tuple[int, int]]:
    match = _VERSION.fullmatch(version)
    return None if match is None else (int(match[1]), int(match[2]))
