# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address pool of the add-on load_balancer: when it is removed, Services lose their addresses.

While its controller runs, MetalLB takes away the address of a Service when no pool has it. An address left behind would lead clients
to nothing, and other load balancers would consider the Service done. So a removal waits for MetalLB, and removes what it left.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Union

from ..._core.engine.context import Context
from ..._core.engine.plan import Value
from ..._core.engine.wait import Pending, Ready, wait
from ..._core.kube.client import Api, Refused
from ..._core.text.errors import PeerError
from ..cluster import open_cluster
from ..manifests import ManifestKind

ADDRESS_POOL = "address-pool"
SERVICES = "/api/v1/services"
_ALLOCATED = "metallb.io/ip-allocated-from-pool"  # the annotation by which MetalLB knows its own Services
_SECONDS = 10.0  # for MetalLB's controller, which needs a tenth of a second


class AddressPoolKind(ManifestKind):
    """Value and target are those of `ManifestKind`. A removal deletes the user's pools too, and takes MetalLB's
    addresses from Services."""

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        place, path = target.split(" ")
        cluster = open_cluster(ctx.host, place, self._identity)
        if cluster is None:
            return
        pools = path.rpartition("/")[0]
        with suppress(Refused):
            cluster.writer(ctx.host, pools).delete(pools)  # pools of the lab's user would let Services keep addresses
        super().remove(ctx, target, before)
        _release_services(ctx, cluster.writer(ctx.host, SERVICES))


def _release_services(ctx: Context[Any], api: Api) -> None:
    def probe() -> Union[Ready[None], Pending]:
        holding = _find_holding(api)
        return Pending(f"{', '.join(holding)}: MetalLB takes the address") if holding else Ready(None)

    with suppress(PeerError):
        wait(ctx.host, ctx.progress, "Services of type LoadBalancer", probe, deadline_seconds=_SECONDS)
    empty = {"metadata": {"annotations": {_ALLOCATED: None}}, "status": {"loadBalancer": None}}
    for service in _find_holding(api):
        namespace, name = service.split("/")
        api.patch(f"/api/v1/namespaces/{namespace}/services/{name}/status", empty)


def _find_holding(api: Api) -> list[str]:
    """Services with an address from MetalLB, as NAMESPACE/NAME."""
    rows = (service["metadata"] for service in api.list(SERVICES).items)
    return [f"{row['namespace']}/{row['name']}" for row in rows if _ALLOCATED in row.get("annotations", {})]
