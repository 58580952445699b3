# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy on a host: program, settings, service, in the order of making."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..._core.cgroup import CGROUP_KINDS, Limits, cgroup
from ..._core.engine import Finding, ResourceEngine
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kinds import BASE_KINDS, Kind, directory, file
from ..._core.plan import Policy, Resource
from ..._core.program import PROGRAM_KINDS, program, sources_digest
from ..._core.service import SERVICE_KINDS, Service, service_pid, supervisor
from ..._core.shared import SHARED_KINDS, shared_directory
from .messages import MESSAGES
from .request import ABSENT, COMMAND, CONFIG, CONFIG_DIRECTORY, LIBRARY, LOG, LOGS, NAME, SOCKETS, Deployment
from .running import PullProxyKind, finding, proxy_resource, status

if TYPE_CHECKING:
    # Ansible brings to a node what a module imports, and the program is made of that there. Nothing of it runs in here.
    from ..proxy import main  # noqa: F401

_GROUP = "pull proxy"
_CGROUP = "ballast-pull_proxy"  # systemd nests slices at dashes, and leaves those in between behind
_PYTHON = "/usr/bin/python3"
_PACKAGES = ("_core", "_pulls")
_MAIN = "_pulls.proxy.main.main"
_PROGRAM = os.path.join(LIBRARY, f"{NAME}.pyz")
# By the name that Python imports, the package of Debian.
_NEEDED = {"grpc": "python3-grpcio", "prometheus_client": "python3-prometheus-client", "yaml": "python3-yaml"}
_FIND = "import importlib.util as u, sys; print(*[name for name in sys.argv[1:] if u.find_spec(name) is None])"
# Longer than the default of `drain`, so that a change of that needs no other service, and so no start anew.
_STOP_SECONDS = 60
_AFTER_DRAIN_SECONDS = 15


class PullProxyEngine(ResourceEngine[Deployment]):
    name = "pull-proxy"
    policy = Policy.UNDO
    kinds: Mapping[str, Kind] = {
        **BASE_KINDS,
        **CGROUP_KINDS,
        **PROGRAM_KINDS,
        **SERVICE_KINDS,
        **SHARED_KINDS,
        "pull-proxy": PullProxyKind(),
    }

    def resources(self, desired: Deployment) -> list[Resource]:
        if desired.state == ABSENT:
            return []
        sv_dir = _sv_dir(desired.state_dir)
        start = f'#!/bin/sh\nexec {_PYTHON} -I {_PROGRAM} "$@"\n'
        return [
            directory(LIBRARY, group=_GROUP),
            program(_PROGRAM, packages=_PACKAGES, main=_MAIN, group=_GROUP),
            file(COMMAND, start, mode=0o755, group=_GROUP),
            shared_directory(CONFIG_DIRECTORY, holder=desired.state_dir, group=_GROUP),
            directory(LOGS, mode=0o750, group=_GROUP),
            directory(SOCKETS, mode=0o700, group=_GROUP),
            cgroup(_CGROUP, Limits(), group=_GROUP),
            directory(sv_dir, group=_GROUP),
            # Before the service, which is proven as soon as it is started.
            supervisor(sv_dir, group=_GROUP),
            proxy_resource(_target(desired.state_dir), desired.document, _service(desired)),
        ]

    def require(self, desired: Deployment, host: Host) -> None:
        if desired.state == ABSENT:
            return
        missing = _missing(host)
        if missing:
            modules, packages = ", ".join(missing), " ".join(missing.values())
            raise MESSAGES.error("pulls-deploy-packages", modules=modules, packages=packages)

    def verify(self, desired: Deployment, host: Host, progress: Progress) -> list[Finding]:
        return [] if desired.state == ABSENT else finding(host, progress)

    def report(self, desired: Deployment, host: Host) -> dict[str, object]:
        return reported(host, desired.state_dir)


ENGINE = PullProxyEngine()


def read(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `image_pull_proxy_info` returns."""
    return {**reported(host, params["state_dir"]), "missing_packages": list(_missing(host).values())}


def reported(host: Host, state_dir: str) -> dict[str, object]:
    pid = service_pid(host, _target(state_dir)) if host.stat(_target(state_dir)) else None
    return {
        "command": COMMAND,
        "config_path": CONFIG,
        "log": LOG,
        "pid": pid,
        "status": None if pid is None else status(host),
    }


def _missing(host: Host) -> dict[str, str]:
    """What Python does not find here: package of Debian by module."""
    names = host.run([_PYTHON, "-I", "-c", _FIND, *_NEEDED], timeout=30).stdout.split()
    return {name: _NEEDED[name] for name in names}


def _service(desired: Deployment) -> Service:
    return Service(
        name=NAME,
        argv=(_PYTHON, "-I", _PROGRAM, "--config", CONFIG),
        log=LOG,
        cgroup=f"{_CGROUP}/proxy",
        config_digest=sources_digest(_PACKAGES),
        after=("containerd.service", "crio.service"),
        before=("kubelet.service",),
        reloads=True,
        stop_seconds=max(_STOP_SECONDS, math.ceil(desired.settings.drain) + _AFTER_DRAIN_SECONDS),
    )


def _sv_dir(state_dir: str) -> str:
    return os.path.join(state_dir, "sv")


def _target(state_dir: str) -> str:
    return os.path.join(_sv_dir(state_dir), NAME)
