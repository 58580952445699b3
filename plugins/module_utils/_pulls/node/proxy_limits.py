# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host's limits: keys of the pull proxy's settings, which a running one takes by HUP without dropping a pull.

The proxy itself, its listeners and its service belong to image_pull_proxy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional, Union

from ..._core.document import format_document, parse_document
from ..._core.errors import PeerError
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kinds import fields
from ..._core.plan import ABSENT, Resource, Value
from ..._core.service import reload_service, service_pid
from ..._core.wait import Pending, Ready, wait
from ..deployment.installation import INSTALLATION, RUNNING
from ..proxy.settings import parse_settings
from .messages import MESSAGES
from .model import HOST_SPEC

_SECONDS = 60


def proxy_resource(host: Host, asked: Mapping[str, Any], original: Value) -> Resource:
    """`original` has the limits of before the first run, which keys that are asked for no more go back to. HostError where
    there is no proxy, the proxy's own errors where the limits cannot be."""
    document = _document(host)
    if document is None:
        raise MESSAGES.error("pulls-node-no-proxy", path=INSTALLATION.config)
    base = _limits(document) if original == ABSENT else dict(fields(fields(original)["limits"]))
    retry = {**_mapping(base["retry"]), **asked["retry"]} if "retry" in asked else base["retry"]
    limits = {**base, **asked, "retry": retry}
    parse_settings(json.dumps(_with_limits(document, limits)), name=f"host: {INSTALLATION.config}")
    return Resource(
        kind="proxy-limits",
        target=INSTALLATION.config,
        value={"limits": limits, "in_effect": True},
        title="limits of the pull proxy",
        group="image pulls",
    )


class ProxyLimitsKind:
    """`{limits, in_effect}`: the keys of the options, null where the file does not set one; and whether the proxy, where it
    runs, works with the file."""

    def __init__(self, state_dir: str, progress: Progress) -> None:
        self._target = INSTALLATION.target(state_dir)
        self._progress = progress

    def read(self, host: Host, target: str) -> Value:
        document = _document(host)
        if document is None:
            return ABSENT
        running = RUNNING.running_settings(host)
        return {"limits": _limits(document), "in_effect": running is None or running == RUNNING.file_settings(host)}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        data, stat = host.read(INSTALLATION.config), host.stat(INSTALLATION.config)
        document = _document(host)
        if data is None or stat is None or document is None:
            return  # the proxy was removed, and its limits with it
        changed = _with_limits(document, fields(fields(after)["limits"]))
        if changed != document:
            host.write(INSTALLATION.config, format_document(changed, like=data.decode()).encode(), mode=stat.mode)
        if service_pid(host, self._target) is not None:
            reload_service(host, self._target)
            self._wait_until_in_effect(host)

    def remove(self, host: Host, target: str, before: Value) -> None:
        """Never asked for: the file is not ours."""

    def _wait_until_in_effect(self, host: Host) -> None:
        wanted = RUNNING.file_settings(host)

        def probe() -> Union[Ready[None], Pending]:
            found = RUNNING.running_settings(host)
            if found == wanted:
                return Ready(None)
            return Pending("it does not answer" if found is None else "it works with other settings")

        try:
            wait(host, self._progress, "pull proxy", probe, deadline_seconds=_SECONDS, interval=0.2)
        except PeerError as error:
            shown = {"seconds": _SECONDS, "path": INSTALLATION.config, "log": INSTALLATION.log}
            raise MESSAGES.error("pulls-node-proxy-refused", found=error.found, **shown) from error


def file_limits(host: Host) -> Optional[dict[str, Any]]:
    """Of the file; None where there is no proxy."""
    document = _document(host)
    return None if document is None else _limits(document)


def _document(host: Host) -> Optional[dict[str, Any]]:
    data = host.read(INSTALLATION.config)
    found = None if data is None else parse_document(data.decode(errors="replace"), name=INSTALLATION.config)
    return found if isinstance(found, dict) else None


def _limits(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document.get(key) for key in HOST_SPEC}


def _with_limits(document: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in document.items() if key not in HOST_SPEC or limits[key] is not None}
    return {**kept, **{key: value for key, value in limits.items() if value is not None}}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
