# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CRI-O's settings of pulls: a drop-in. CRI-O limits no pulls; it can only carry them in a cgroup of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Union

from ..._core.daemon import command_line, daemon_pid, flag_value, restart_daemon
from ..._core.errors import CommandFailed, PeerError
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.plan import Resource
from ..._core.wait import Pending, Ready, wait
from .drop_in import HEADING, DropInKind, drop_in
from .messages import MESSAGES
from .toml import quoted, tables

CONFIG_DIRECTORY = "/etc/crio/crio.conf.d"
FILE_NAME = "90-ballast-image-pulls.conf"
# crio.conf(5): the table of each key.
_TABLES = {"separate_pull_cgroup": "crio.runtime"}
_TIMEOUT = 30


def crio_resource(host: Host, service: str, settings: Mapping[str, str]) -> Resource:
    """What should be for these settings. UserError where CRI-O has no such key."""
    for key in settings:
        if key not in _TABLES:
            hint = "leave it out: CRI-O limits no pulls; the pull proxy does, role ballast.kube.image_pull_proxy"
            raise MESSAGES.error("pulls-node-runtime-key", key=key, runtime="CRI-O", why="", hint=hint)
    pid = daemon_pid(host, service)
    argv = [] if pid is None else command_line(host, pid)
    directory = flag_value(argv, "--config-dir") or flag_value(argv, "-d") or CONFIG_DIRECTORY
    path = os.path.join(directory, FILE_NAME)
    return drop_in("crio-drop-in", path, drop_in_text(settings), title=f"CRI-O's drop-in {path}")


def drop_in_text(settings: Mapping[str, str]) -> str:
    rows = [f"[{_TABLES[key]}]\n{key} = {quoted(settings[key])}\n" for key in sorted(settings)]
    return "\n".join([HEADING, *rows])


def read_in_effect(host: Host) -> Mapping[str, object]:
    """What the running CRI-O says of the keys that are set here."""
    found = tables(host.run(["crio", "status", "config"], timeout=_TIMEOUT).stdout)
    return {key: found.get(table, {}).get(key) for key, table in _TABLES.items()}


class CrioDropInKind(DropInKind):
    """CRI-O's drop-in; see DropInKind."""

    def __init__(self, service: str, ready_seconds: float, progress: Progress) -> None:
        self._service = service
        self._ready_seconds = ready_seconds
        self._progress = progress

    def emptied(self, text: str) -> str:
        return HEADING

    def take_effect(self, host: Host, target: str, text: str, *, goes_back: bool) -> None:
        self._progress.started("CRI-O", "starting it anew")
        restart_daemon(host, self._service)
        self._wait_until_healthy(host)
        if not goes_back:
            self._require_in_effect(host, target, text)
        self._progress.done("CRI-O", "healthy")

    def _require_in_effect(self, host: Host, target: str, text: str) -> None:
        wanted = tables(text)
        found = read_in_effect(host)
        for key, table in _TABLES.items():
            value = wanted.get(table, {}).get(key)
            if value is not None and found[key] != value:
                shown = {"what": "CRI-O", "key": key, "wanted": value, "path": target, "where": os.path.dirname(target)}
                raise MESSAGES.error("pulls-node-not-in-effect", found=f"{key} = {found[key]}", **shown)

    def _wait_until_healthy(self, host: Host) -> None:
        def probe() -> Union[Ready[None], Pending]:
            if daemon_pid(host, self._service) is None:
                return Pending("it does not run")
            try:
                status = host.run(["crio", "status", "info"], timeout=_TIMEOUT, check=False).status
            except CommandFailed as error:
                return Pending(error.found)
            return Ready(None) if status == 0 else Pending("it does not answer")

        try:
            wait(host, self._progress, "CRI-O", probe, deadline_seconds=self._ready_seconds, interval=0.3)
        except PeerError as error:
            shown = {"runtime": "CRI-O", "seconds": f"{self._ready_seconds:.0f}"}
            raise MESSAGES.error("pulls-node-runtime-failed", found=error.found or error.text, **shown) from error
