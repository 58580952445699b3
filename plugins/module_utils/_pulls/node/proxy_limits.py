# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host's limits: keys of the pull proxy's settings, which a running proxy reloads at SIGHUP without dropping a pull.

The proxy itself, its listeners and its service belong to image_pull_proxy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional, Union

from ..._core.engine.context import Context
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.engine.wait import Pending, Ready, wait
from ..._core.host.host import Host
from ..._core.service.services import reload_service, service_pid
from ..._core.text.document import format_document, parse_document
from ..._core.text.errors import PeerError
from ..._core.text.json_text import mapping_in
from ..deployment.installation import INSTALLATION, RUNNING
from ..proxy.settings import parse_settings
from .messages import MESSAGES
from .model import HOST_SPEC, ImagePullsRequest

_SECONDS = 60


def proxy_resource(host: Host, settings: Mapping[str, Any], original: Value) -> Resource:
    """`original` has the limits from before the first run, to which omitted keys return. HostError if there is no proxy; the proxy's
    own errors for limits that it refuses."""
    document = _document(host)
    if document is None:
        raise MESSAGES.error("pulls-node-no-proxy", path=INSTALLATION.config)
    base = _limits(document) if original == ABSENT else dict(fields(fields(original)["limits"]))
    retry = {**mapping_in(base["retry"]), **settings["retry"]} if "retry" in settings else base["retry"]
    limits = {**base, **settings, "retry": retry}
    parse_settings(json.dumps(_with_limits(document, limits)), name=f"host: {INSTALLATION.config}")
    return Resource(
        kind="proxy-limits",
        target=INSTALLATION.config,
        value={"limits": limits, "in_effect": True},
        title="limits of the pull proxy",
        group="image pulls",
    )


class ProxyLimitsKind:
    """`{limits, in_effect}`: the keys of the options, null for a key that the file does not set; and whether the running proxy, if
    any, has reloaded the file."""

    def read(self, ctx: Context[ImagePullsRequest], target: str) -> Value:
        document = _document(ctx.host)
        if document is None:
            return ABSENT
        running = RUNNING.running_settings(ctx.host)
        return {"limits": _limits(document), "in_effect": running is None or running == RUNNING.file_settings(ctx.host)}

    def write(self, ctx: Context[ImagePullsRequest], target: str, after: Value, before: Value) -> None:
        data, document = ctx.host.read(INSTALLATION.config), _document(ctx.host)
        if data is None or document is None:
            return  # the proxy was removed, and its limits with it
        changed = _with_limits(document, fields(fields(after)["limits"]))
        if changed != document:
            ctx.host.replace(INSTALLATION.config, format_document(changed, like=data.decode()).encode())
        service = INSTALLATION.target(ctx.desired.layout.pull_proxy_state_dir)
        if service_pid(ctx.host, service) is not None:
            reload_service(ctx.host, service)
            self._wait_until_in_effect(ctx)

    def remove(self, ctx: Context[ImagePullsRequest], target: str, before: Value) -> None:
        """Never called: the file belongs to image_pull_proxy."""

    def _wait_until_in_effect(self, ctx: Context[ImagePullsRequest]) -> None:
        expected = RUNNING.file_settings(ctx.host)

        def probe() -> Union[Ready[None], Pending]:
            effective = RUNNING.running_settings(ctx.host)
            if effective == expected:
                return Ready(None)
            return Pending("it does not respond" if effective is None else "it runs with other settings")

        try:
            wait(ctx.host, ctx.progress, "pull proxy", probe, deadline_seconds=_SECONDS, interval=0.2)
        except PeerError as error:
            shown = {"seconds": _SECONDS, "path": INSTALLATION.config, "log": INSTALLATION.log}
            raise MESSAGES.error("pulls-node-proxy-refused", found=error.found, **shown) from error


def read_file_limits(host: Host) -> Optional[dict[str, Any]]:
    """The limits in the file; None if there is no proxy."""
    document = _document(host)
    return None if document is None else _limits(document)


def _document(host: Host) -> Optional[dict[str, Any]]:
    data = host.read(INSTALLATION.config)
    document = None if data is None else parse_document(data.decode(errors="replace"), name=INSTALLATION.config)
    return document if isinstance(document, dict) else None


def _limits(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document.get(key) for key in HOST_SPEC}


def _with_limits(document: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in document.items() if key not in HOST_SPEC or limits[key] is not None}
    return {**kept, **{key: value for key, value in limits.items() if value is not None}}
