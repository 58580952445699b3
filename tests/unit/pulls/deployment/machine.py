# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine in memory that runs the pull proxy: what `status` answers, and what TERM and HUP do to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.request import SPEC, Deployment
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import parse_settings
from tests.unit.fake_supervisors import FakeRunit, FakeSystemd
from tests.unit.fakes import FakeHost

STATE = "/var/lib/ballast/pull-proxy"
SV = f"{STATE}/sv/ballast-pull-proxy"
CONFIG, LOG = INSTALLATION.config, INSTALLATION.log
CONTROL = f"{INSTALLATION.sockets}/control"


# Of a file of settings that only `max_in_flight` is given of.
LIMITS = {"max_in_flight": 3, "on_full": "block", "join": True, "present": "pass", "order": "fifo", "drain": "30s"}


def listener(name: str) -> dict[str, str]:
    return {"name": name, "socket": f"/run/ballast-pull-proxy/{name}.sock", "runtime": f"/run/{name}/containerd.sock"}


def deployment(**changes: Any) -> Deployment:
    given = {"listeners": [listener("n1")], "max_in_flight": 3, **changes}
    return Deployment.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **given})


def nothing() -> Deployment:
    return deployment(state="absent")


class Proxy:
    """Takes all of its file when it is started, and all but `listeners` and `metrics` when it is sent HUP.

    `deaf`: it takes nothing by HUP. `mute` says when it does not answer.
    """

    def __init__(self, host: FakeHost, supervisor: FakeRunit | FakeSystemd) -> None:
        self.host = host
        self.deaf = False
        self.mute: Callable[[], bool] = lambda: False
        self._supervisor = supervisor
        self._pid: Optional[int] = None
        self._reloads = 0
        self.settings: dict[str, Any] = {}
        host.on("/usr/bin/python3", answer="\n", reads=True)
        host.given_listener(CONTROL, self._status)

    def answer(self) -> dict[str, Any]:
        return {"settings": asdict(parse_settings(json.dumps(self.settings), name="the proxy's"))}

    def _status(self) -> Optional[str]:
        pid = service_pid(self.host, SV) if self.host.stat(SV) else None
        if pid is None or self.mute():
            return None
        document = json.loads(self.host.text(CONFIG))
        if pid != self._pid:
            self._pid, self.settings = pid, document
        elif len(self._supervisor.reloaded) > self._reloads and not self.deaf:
            kept = {key: self.settings[key] for key in ("listeners", "metrics") if key in self.settings}
            self.settings = {**{key: part for key, part in document.items() if key != "metrics"}, **kept}
        self._reloads = len(self._supervisor.reloaded)
        return json.dumps(self.answer())


def _given_directories(host: FakeHost) -> None:
    for path in ("/usr/local/bin", "/usr/local/lib"):
        host.given_directory(path)
    host.given("/var/lib/ballast/shared/srv.json", '{"made": "", "holders": ["lab"]}')


def systemd() -> Proxy:
    host = FakeHost(systemd=True)
    host.given_cgroups(2)
    _given_directories(host)
    return Proxy(host, FakeSystemd(host))


def runit() -> Proxy:
    host = FakeHost()
    host.given_cgroups(1)
    _given_directories(host)
    return Proxy(host, FakeRunit(host))


MACHINES: dict[str, Callable[[], Proxy]] = {"runit": runit, "systemd": systemd}
