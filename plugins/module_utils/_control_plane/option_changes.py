# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of options on an existing control plane: which are refused, and which of its settings are kept. Pure."""

from __future__ import annotations

import os
from typing import Optional

from .._core.engine.plan import ABSENT, State
from .._core.host.names import join_name
from .._core.service.service import Service
from .messages import MESSAGES
from .pki.encryption import FLAG as ENCRYPTION
from .pki.encryption import keep_former_encryption
from .processes.etcd import data_dir
from .processes.tls_service import without_fault
from .profiles.options_messages import MESSAGES as OPTIONS_MESSAGES
from .profiles.profiles import ETCD
from .record import API_SERVERS
from .request import ABSENT_STATE, ControlPlaneRequest

_SERVICE_NETWORK, _PREFIX, _CLUSTER = "service-cluster-ip-range", "etcd-prefix", "initial-cluster"


def merge_with_existing(request: ControlPlaneRequest, state: State) -> ControlPlaneRequest:
    """The request, with the settings that the existing control plane must keep.

    UserError when the change would make its data unusable.
    """
    if request.state == ABSENT_STATE:
        return request
    _refuse_other_members(request, state)
    flags = _api_server_flags(request, state)
    if flags is None:  # before the first start, for which a restore may have brought keys
        return keep_former_encryption(request, state, in_use=False)
    _refuse_other_service_network(request, flags)
    _refuse_other_etcd(request, flags)
    return keep_former_encryption(request, state, in_use=ENCRYPTION in flags)


def _api_server_flags(request: ControlPlaneRequest, state: State) -> Optional[dict[str, str]]:
    """The flags of the existing API server, of any profile and deployment mode; None before the first start."""
    for component in API_SERVERS:
        flags = _flags_of(request, state, component)
        if flags is not None:
            return flags
    return None


def _flags_of(request: ControlPlaneRequest, state: State, process: str) -> Optional[dict[str, str]]:
    service = state.values.get(("service", os.path.join(request.sv_dir, join_name(request.name, process))), ABSENT)
    if service == ABSENT:
        return None
    words = (word.partition("=") for word in Service.from_value(without_fault(service)).argv[1:])
    return {name.lstrip("-"): value for name, _equals, value in words}


def _refuse_other_members(request: ControlPlaneRequest, state: State) -> None:
    """Refuse to change the members: etcd's data names them."""
    flags = _flags_of(request, state, ETCD)
    cluster = (flags or {}).get(_CLUSTER)
    if request.existing_etcd is not None or cluster is None:
        return
    recorded = len(cluster.split(","))
    if recorded != request.members:
        raise MESSAGES.error("plane-members-fixed", value=request.members, path=data_dir(request), recorded=recorded)


def _refuse_other_service_network(request: ControlPlaneRequest, flags: dict[str, str]) -> None:
    """Refuse another network: the API server has allocated addresses of the present one."""
    network = flags.get(_SERVICE_NETWORK)
    if request.has_pods and network is not None and network != request.service_cidr:
        raise MESSAGES.error(
            "plane-service-cidr-fixed", value=request.service_cidr, path=data_dir(request), found=network
        )


def _refuse_other_etcd(request: ControlPlaneRequest, flags: dict[str, str]) -> None:
    """Refuse another etcd or key prefix: all objects would disappear from the API."""
    prefix = flags.get(_PREFIX)
    requested = None if request.existing_etcd is None else request.existing_etcd.prefix
    if prefix == requested:
        return
    place = data_dir(request) if prefix is None else f"an existing etcd under {prefix}"
    raise OPTIONS_MESSAGES.error(
        "plane-etcd-fixed",
        value=request.choice.etcd if requested is None else f"existing under {requested}",
        place=place,
    )
