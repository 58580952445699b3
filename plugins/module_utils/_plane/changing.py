# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a change of options may not do to a control plane that is there, and what it must keep. Pure."""

from __future__ import annotations

import os
from typing import Optional

from .._core.kinds import fields
from .._core.names import joined
from .._core.plan import ABSENT, State, Value
from .._core.service import Service
from .desired import ABSENT_STATE, ControlPlane
from .encryption import FLAG as ENCRYPTION
from .encryption import with_former_encryption
from .etcd import data_dir
from .messages import MESSAGES
from .options_messages import MESSAGES as OPTIONS_MESSAGES
from .record import API_SERVERS

_SERVICE_NETWORK, _PREFIX = "service-cluster-ip-range", "etcd-prefix"


def without_fault(value: Value) -> Value:
    """Of a service that runs with certificates, the service."""
    return {name: part for name, part in fields(value).items() if name != "fault"}


def adapted(plane: ControlPlane, state: State) -> ControlPlane:
    """The control plane with what must be kept of the one that is there.

    UserError when the change would part it from its data.
    """
    if plane.state == ABSENT_STATE:
        return plane
    found = _api_server_flags(plane, state)
    if found is None:  # before the first start, for which a restore may have brought keys
        return with_former_encryption(plane, state, in_use=False)
    _refuse_other_service_network(plane, found)
    _refuse_other_etcd(plane, found)
    return with_former_encryption(plane, state, in_use=ENCRYPTION in found)


def _api_server_flags(plane: ControlPlane, state: State) -> Optional[dict[str, str]]:
    """The flags of the API server that is there, of whatever profile and shape; None before the first."""
    for component in API_SERVERS:
        found = state.values.get(("service", os.path.join(plane.sv_dir, joined(plane.name, component))), ABSENT)
        if found == ABSENT:
            continue
        words = (word.partition("=") for word in Service.from_value(without_fault(found)).argv[1:])
        return {name.lstrip("-"): value for name, _equals, value in words}
    return None


def _refuse_other_service_network(plane: ControlPlane, found: dict[str, str]) -> None:
    """The API server has allocated addresses of the network it was started with; it cannot move to another."""
    network = found.get(_SERVICE_NETWORK)
    if plane.has_pods and network is not None and network != plane.service_cidr:
        raise MESSAGES.error("plane-service-cidr-fixed", value=plane.service_cidr, path=data_dir(plane), found=network)


def _refuse_other_etcd(plane: ControlPlane, found: dict[str, str]) -> None:
    """With another etcd, or another part of it, everything would be gone from sight."""
    prefix = found.get(_PREFIX)
    wanted = None if plane.existing_etcd is None else plane.existing_etcd.prefix
    if prefix == wanted:
        return
    place = data_dir(plane) if prefix is None else f"an existing etcd under {prefix}"
    raise OPTIONS_MESSAGES.error(
        "plane-etcd-fixed", value=plane.choice.etcd if wanted is None else f"existing under {wanted}", place=place
    )
