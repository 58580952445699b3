# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services with certificates: a service is restarted when its certificate files have changed since its start.

Its definition holds the digest of the files that its command line names, beside the digest of its settings. So a run also
sees which files an earlier, killed run renewed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..._core.engine.context import Context
from ..._core.engine.kinds import digest, fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.host.host import Host
from ..._core.service.service import Service, service
from ..._core.service.services import ServiceKind
from .components import credentials

_BETWEEN = "+"  # settings' digest + files' digest


def tls_service(sv_dir: str, process: Service, *, running: bool, group: str) -> Resource:
    """A service as a resource for `TlsServiceKind`, with the value that the kind compares with."""
    plain = service(sv_dir, process, running=running, group=group)
    return replace(plain, value={**fields(plain.value), "fault": ""})


class TlsServiceKind(ServiceKind):
    """Value: that of a service, and `fault`, which is empty when the service was started with the current files."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        value = super().read(ctx, target)
        if value == ABSENT:
            return ABSENT
        settings, _between, files = str(fields(value)["config_digest"]).partition(_BETWEEN)
        fault = "" if files == _files_digest(ctx.host, value) else "it was started with other certificates"
        return {**fields(value), "config_digest": settings, "fault": fault}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        known = before if before != ABSENT and not fields(before)["fault"] else ABSENT
        super().write(ctx, target, _with_files(ctx.host, after), _with_files(ctx.host, known))


def without_fault(value: Value) -> dict[str, Value]:
    """The value of the plain service."""
    return {name: part for name, part in fields(value).items() if name != "fault"}


def _with_files(host: Host, value: Value) -> Value:
    if value == ABSENT:
        return ABSENT
    plain = without_fault(value)
    return {**plain, "config_digest": f"{plain['config_digest']}{_BETWEEN}{_files_digest(host, plain)}"}


def _files_digest(host: Host, value: Value) -> str:
    argv = Service.from_value(without_fault(value)).argv
    return digest(*(host.read(path) or b"" for path in credentials(argv)))
