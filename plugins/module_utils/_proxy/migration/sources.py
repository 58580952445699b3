# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kube-proxy and the API say, each asked once, when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ..._core.errors import BallastError
from ..._core.host import Host
from . import feed, installation
from .health import read_metrics
from .installation import Installation
from .request import Found


class Sources:
    def __init__(self, host: Host, where: Installation, found: Found) -> None:
        self._host = host
        self._where = where
        self._found = found
        self._metrics: Optional[str] = None
        self._snapshot: Optional[Mapping[str, Any]] = None
        self._problem: Optional[BallastError] = None

    @property
    def metrics(self) -> str:
        """In the Prometheus text format; "" where kube-proxy does not answer."""
        if self._metrics is None:
            self._metrics = read_metrics(self._host, self._found.config)
        return self._metrics

    def snapshot(self) -> Mapping[str, Any]:
        """A `v1 List`. An API that does not answer, and credentials that are none, are an error each time."""
        if self._problem is not None:
            raise self._problem
        if self._snapshot is None:
            try:
                api = installation.api(self._host, self._where, self._found.config)
                self._snapshot = feed.snapshot(api, self._found.node)
            except BallastError as error:
                self._problem = error
                raise
        return self._snapshot
