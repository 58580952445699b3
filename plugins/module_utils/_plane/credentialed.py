# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services that run with certificates: a service that was started with other ones than are there now is not as
wanted, and is started again.

The digest of the files that its command line names is kept in its definition beside the digest of its settings, so
that also what a killed run renewed is seen by the next one.
"""

from __future__ import annotations

from dataclasses import replace

from .._core.host import Host
from .._core.kinds import digest, fields
from .._core.plan import ABSENT, Resource, Value
from .._core.service import Service, ServiceKind, service
from .components import credentials

_BETWEEN = "+"  # settings' digest + files' digest


def credentialed(sv_dir: str, wanted: Service, *, running: bool, group: str) -> Resource:
    plain = service(sv_dir, wanted, running=running, group=group)
    return replace(plain, value={**fields(plain.value), "fault": ""})


class CredentialedServiceKind(ServiceKind):
    """Value: that of a service, and `fault`, which is empty when it was started with the files that are there."""

    def read(self, host: Host, target: str) -> Value:
        value = super().read(host, target)
        if value == ABSENT:
            return ABSENT
        settings, _between, files = str(fields(value)["config_digest"]).partition(_BETWEEN)
        fault = "" if files == _files_digest(host, value) else "it was started with other certificates"
        return {**fields(value), "config_digest": settings, "fault": fault}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        known = before if before != ABSENT and not fields(before)["fault"] else ABSENT
        super().write(host, target, _with_files(host, after), _with_files(host, known))


def _with_files(host: Host, value: Value) -> Value:
    if value == ABSENT:
        return ABSENT
    plain = {name: part for name, part in fields(value).items() if name != "fault"}
    return {**plain, "config_digest": f"{plain['config_digest']}{_BETWEEN}{_files_digest(host, plain)}"}


def _files_digest(host: Host, value: Value) -> str:
    argv = Service.from_value({name: part for name, part in fields(value).items() if name != "fault"}).argv
    return digest(*(host.read(path) or b"" for path in credentials(argv)))
