# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine in memory that runs the service proxy: what `status` answers, what TERM and HUP do to it, and the rules that it makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.configuration import (
    Configuration,
    parse_configuration,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.request import SPEC, Deployment
from tests.unit.fake_supervisors import FakeRunit, FakeSystemd
from tests.unit.fake_users import FakeUsers
from tests.unit.fakes import FakeHost

STATE = "/var/lib/ballast/service-proxy"
SV = f"{STATE}/sv/ballast-service-proxy"
CONFIG = INSTALLATION.config
CONTROL = f"{INSTALLATION.sockets}/control"
TABLES = "/tables-of-the-kernel"
KUBECONFIG = "/etc/ballast/service-proxy.kubeconfig"


def deployment(config: Optional[dict[str, Any]] = None, **changes: Any) -> Deployment:
    whole = {"clientConnection": {"kubeconfig": KUBECONFIG}, **(config or {})}
    given = {"config": whole, "service_proxy_name": "ballast", **changes}
    return Deployment.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **given})


def nothing() -> Deployment:
    return deployment(state="absent")


class Proxy:
    """Takes all of its file when it is started, and what needs no restart when it is sent HUP."""

    def __init__(self, host: FakeHost, supervisor: FakeRunit | FakeSystemd) -> None:
        self.host = host
        self.users = FakeUsers(host)
        host.given_directory("/etc/ballast")
        host.given(KUBECONFIG, "{}", mode=0o600)
        self._supervisor = supervisor
        self._pid: Optional[int] = None
        self._reloads = 0
        self.configuration: Optional[Configuration] = None
        host.on("/usr/bin/python3", answer="\n", reads=True)
        host.on("nft")
        host.given_listener(CONTROL, self._status)

    def _status(self) -> Optional[str]:
        pid = service_pid(self.host, SV) if self.host.stat(SV) else None
        if pid is None:
            return None
        read = parse_configuration(self.host.text(CONFIG), name=CONFIG)
        if pid != self._pid or self.configuration is None:
            self._pid, self.configuration = pid, read
            self.host.given(TABLES, "rules")
        elif len(self._supervisor.reloaded) > self._reloads:
            self.configuration, _keys = self.configuration.reload(read)
        self._reloads = len(self._supervisor.reloaded)
        return json.dumps({"settings": asdict(self.configuration)})


def systemd() -> Proxy:
    host = FakeHost(systemd=True)
    host.given_cgroups(2)
    _give_directories(host)
    return Proxy(host, FakeSystemd(host))


def runit() -> Proxy:
    host = FakeHost()
    host.given_cgroups(1)
    _give_directories(host)
    return Proxy(host, FakeRunit(host))


def _give_directories(host: FakeHost) -> None:
    for path in ("/usr/local/bin", "/usr/local/lib"):
        host.given_directory(path)
    host.given("/var/lib/ballast/shared/srv.json", '{"made": "", "holders": ["lab"]}')


MACHINES: dict[str, Callable[[], Proxy]] = {"runit": runit, "systemd": systemd}
