# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CRI-O's settings of pulls: a drop-in. CRI-O cannot limit pulls; it can only run them in a separate cgroup."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..._core.engine.context import Context
from ..._core.engine.plan import Resource
from ..._core.host.host import Host
from ..._core.host.processes import read_command
from ..._core.service.daemon import daemon_process, flag_value
from ..._core.text.errors import CommandFailed
from ..._core.text.toml_text import toml_string
from .drop_in import HEADING, DropInKind, drop_in, restart_until_healthy
from .messages import MESSAGES
from .model import CRIO, ImagePullsRequest
from .runtime import runtime_service
from .toml import parse_tables

CONFIG_DIRECTORY = "/etc/crio/crio.conf.d"
FILE_NAME = "90-ballast-image-pulls.conf"
# The table of each key, from crio.conf(5).
_TABLES = {"separate_pull_cgroup": "crio.runtime"}
_TIMEOUT = 30


def crio_resource(host: Host, service: str, settings: Mapping[str, str]) -> Resource:
    """The resource for these settings. UserError if CRI-O lacks a key."""
    for key in settings:
        if key not in _TABLES:
            hint = "omit it: CRI-O does not limit pulls; the pull proxy does: role ballast.kube.image_pull_proxy"
            raise MESSAGES.error("pulls-node-runtime-key", key=key, runtime="CRI-O", why="", hint=hint)
    running = daemon_process(host, service)
    argv = [] if running is None else read_command(host, running.id)
    directory = flag_value(argv, "--config-dir") or flag_value(argv, "-d") or CONFIG_DIRECTORY
    path = os.path.join(directory, FILE_NAME)
    return drop_in("crio-drop-in", path, drop_in_text(settings), title=f"CRI-O's drop-in {path}")


def drop_in_text(settings: Mapping[str, str]) -> str:
    """One table for each key; equal settings give equal text."""
    rows = [f"[{_TABLES[key]}]\n{key} = {toml_string(settings[key])}\n" for key in sorted(settings)]
    return "\n".join([HEADING, *rows])


def read_in_effect(host: Host) -> Mapping[str, object]:
    """The values of the running CRI-O for the keys that this module can set."""
    config = parse_tables(host.run(["crio", "status", "config"], timeout=_TIMEOUT).stdout)
    return {key: config.get(table, {}).get(key) for key, table in _TABLES.items()}


def _check_health(host: Host, service: str) -> str:
    """Why CRI-O is not healthy, "" if it is."""
    if daemon_process(host, service) is None:
        return "it is not running"
    try:
        status = host.run(["crio", "status", "info"], timeout=_TIMEOUT, check=False).status
    except CommandFailed as error:
        return error.found
    return "" if status == 0 else "it does not respond"


class CrioDropInKind(DropInKind):
    """CRI-O's drop-in; see DropInKind."""

    def empty_text(self, text: str) -> str:
        return HEADING

    def take_effect(
        self, ctx: Context[ImagePullsRequest], target: str, text: str, seen: Any, *, rolls_back: bool
    ) -> None:
        service = runtime_service(ctx.host, ctx.desired.layout, CRIO)
        check = partial(_check_health, ctx.host, service)
        restart_until_healthy(ctx, "CRI-O", service, check, failure="pulls-node-runtime-failed")
        if not rolls_back:
            self._require_in_effect(ctx, target, text)
        ctx.progress.done("CRI-O", "healthy")

    def _require_in_effect(self, ctx: Context[ImagePullsRequest], target: str, text: str) -> None:
        expected = parse_tables(text)
        effective = read_in_effect(ctx.host)
        for key, table in _TABLES.items():
            value = expected.get(table, {}).get(key)
            if value is not None and effective[key] != value:
                shown = {"what": "CRI-O", "key": key, "wanted": value, "path": target, "where": os.path.dirname(target)}
                raise MESSAGES.error("pulls-node-not-in-effect", found=f"{key} = {effective[key]}", **shown)
