# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kube-proxy's metrics and the API's objects. Each is read once, when first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._core.host.host import Host
from .._core.text.errors import BallastError
from . import installation
from .health import read_metrics
from .informer import read_nodes, read_snapshot
from .installation import Installation
from .request import KubeProxyState

if TYPE_CHECKING:
    from .._core.kube.client import Api


class Sources:
    def __init__(self, host: Host, where: Installation, state: KubeProxyState) -> None:
        self._host = host
        self._where = where
        self._found = state
        self._metrics: Optional[str] = None
        self._snapshot: Optional[Mapping[str, Any]] = None
        self._problem: Optional[BallastError] = None

    @property
    def metrics(self) -> str:
        """In Prometheus text format; "" if kube-proxy does not respond."""
        if self._metrics is None:
            self._metrics = read_metrics(self._host, self._found.config)
        return self._metrics

    def snapshot(self) -> Mapping[str, Any]:
        """A `v1 List`. If the API does not respond or there are no credentials, each call raises that error."""
        if self._problem is not None:
            raise self._problem
        if self._snapshot is None:
            try:
                self._snapshot = read_snapshot(self._api(), self._found.node)
            except BallastError as error:
                self._problem = error
                raise
        return self._snapshot

    def fresh_snapshot(self) -> Mapping[str, Any]:
        """`snapshot`, read again."""
        self._snapshot = None
        return self.snapshot()

    def snapshot_with_every_node(self) -> Mapping[str, Any]:
        """`snapshot` with the other Nodes. Only a change to ipvs needs them, and in a large cluster they are megabytes."""
        others = [item for item in self.snapshot()["items"] if item["kind"] != "Node"]
        return {**self.snapshot(), "items": [*others, *read_nodes(self._api())]}

    def api_server(self) -> str:
        """The URL that `snapshot` is read from; "" if unknown."""
        return installation.api_server(self._host, self._where, self._found.config)

    def _api(self) -> Api:
        return installation.api(self._host, self._where, self._found.config)
