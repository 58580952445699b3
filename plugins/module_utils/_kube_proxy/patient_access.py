# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads from an API server that is temporarily slow.

When a batch of nodes changes its kube-proxy at once, the API server is loaded too. A single late response must not count as
a failed node, which would end a rollout.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Optional

from .._core.host.host import BODY_LIMIT, Host, Response, Stream
from .._core.kube.client import Access
from .._core.text.errors import PeerError

ATTEMPTS = 3


@dataclass(frozen=True)
class PatientAccess:
    """An `Access` that sends a read request up to ATTEMPTS times if the response is late. It does not retry if the server
    refuses the connection or returns an error."""

    access: Access

    def request(
        self,
        host: Host,
        target: str,
        *,
        method: str,
        body: Optional[bytes],
        headers: Mapping[str, str],
        timeout: float,
        limit: int = BODY_LIMIT,
    ) -> Response:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self.access.request(
                    host, target, method=method, body=body, headers=headers, timeout=timeout, limit=limit
                )
            except PeerError as error:
                if method != "GET" or attempt == ATTEMPTS or not _came_too_late(error):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def stream(
        self, host: Host, target: str, *, headers: Mapping[str, str], timeout: float
    ) -> AbstractContextManager[Stream]:
        return self.access.stream(host, target, headers=headers, timeout=timeout)

    def elsewhere(self, server: str) -> Optional[Access]:
        return self.access.elsewhere(server)


def _came_too_late(error: PeerError) -> bool:
    """Matches Python's wording for a connection, a TLS handshake and a response."""
    return error.id == "core-no-answer" and "timed out" in error.found
