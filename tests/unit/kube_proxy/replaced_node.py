# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in memory whose kube-proxy can be replaced by our service proxy: its service, its control socket, its rules, what it
answers at kube-proxy's addresses, and the condition by which systemd leaves kube-proxy stopped."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import (
    KUBE_PROXY_TABLE,
    SERVICE_PROXY_TABLE,
    TAKEOVER_TABLE,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.layout import SERVICE_PROXY, owner_chain
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.configuration import parse_configuration
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import INSTALLATION
from tests.unit.fakes import Answer, Call
from tests.unit.kube_proxy.fake_node import GUARD, SERVICE, STATE, Node, _Systemd

OUR_SERVICE = INSTALLATION.target(STATE)
OUR_UNIT = "/etc/systemd/system/ballast-service-proxy.service"
DROP_IN = "/etc/systemd/system/kube-proxy.service.d/ballast-hold.conf"
LINK = f"{SERVICE}/down"
BALLAST = "ballast"
FAMILIES = ("ip", "ip6")


class ReplacedNode(Node):
    """`unfit` and `lost` know "ballast" too; `crashing` is a service proxy that does not answer."""

    def __init__(self, kind: str = "runit", *, mode: str = "iptables") -> None:
        super().__init__(kind, mode=mode)
        host = self.host
        self.crashing = False
        for path in ("/usr/local/bin", "/usr/local/lib"):
            host.given_directory(path)
        host.given("/var/lib/ballast/shared/srv.json", '{"made": "", "holders": ["lab"]}')
        host.on("/usr/bin/python3", answer="\n", reads=True)
        host.on("ip", "-j", "address", answer="[]", reads=True)
        host.given_listener(f"{INSTALLATION.sockets}/control", self._status)
        host.answer("http://127.0.0.1:10256/readyz", lambda url, _body: self._says(url, "ok"))
        host.answer("http://127.0.0.1:10249/proxyMode", lambda url, _body: self._says(url, self._spoken_mode()))
        self.on_start = self._write_rules
        self._write_rules()
        if isinstance(self.services, _Systemd):
            self.condition = False  # of the drop-in, as systemd has read it
            host.on(
                "systemctl", answer=self._systemctl, reads=lambda argv: argv[1] in ("show", "is-active", "is-enabled")
            )

    @property
    def serving(self) -> str:
        """The mode of what serves; both names where both run, "" where none does."""
        of_kube_proxy = [self.mode] if self.pod or self.services.runs(SERVICE) else []
        return " ".join([*of_kube_proxy, *([BALLAST] if self._runs() else [])])

    def left_of_change(self) -> list[str]:
        """All that there is of the watchdog and the takeover table."""
        tables = [" ".join(one) for one in sorted(self.tables) if one[1] == TAKEOVER_TABLE]
        paths = [path for path in self.host.paths("/") if path.startswith(GUARD) or "ballast-kube-proxy" in path]
        processes = [" ".join(one.argv) for one in self.host.processes.values() if GUARD in " ".join(one.argv)]
        return [*tables, *paths, *processes]

    def restart_machine(self) -> None:
        """/run is empty. Under runit nothing of ours is started, and kube-proxy's own supervisor starts what is not down. systemd
        starts our service, which has made its directory and marked it."""
        self.host._forget(INSTALLATION.sockets)
        if isinstance(self.services, _Systemd):
            self.host.given_ours(INSTALLATION.sockets)
            self.host.given(f"{INSTALLATION.sockets}/lock", "1")

    def _runs(self) -> bool:
        return self.host.stat(OUR_SERVICE) is not None and service_pid(self.host, OUR_SERVICE) is not None

    def _status(self) -> Optional[str]:
        if not self._runs() or self.crashing:
            return None
        self.tables |= {(family, SERVICE_PROXY_TABLE) for family in FAMILIES}
        read = parse_configuration(self.host.text(INSTALLATION.config), name=INSTALLATION.config)
        return json.dumps({"settings": asdict(read)})

    def _write_rules(self) -> None:
        """kube-proxy's, which removes those of its other modes when it starts."""
        self.tables -= {(family, KUBE_PROXY_TABLE) for family in FAMILIES}
        if self.mode == "nftables":
            self.tables |= {(family, KUBE_PROXY_TABLE) for family in FAMILIES}

    def _spoken_mode(self) -> str:
        return self.serving.replace(BALLAST, "nftables")

    def _says(self, url: str, text: str) -> Response:
        if not self.serving:
            raise no_answer_error("GET", url, ConnectionRefusedError(111, "Connection refused"))
        return Response(status=200, body=text.encode())

    def _metrics(self) -> str:
        moment = 0 if self.serving in self.unfit else 1700000000
        return f'kubeproxy_sync_proxy_rules_last_timestamp_seconds{{ip_family="IPv4"}} {moment}\n'

    def _probe(self, call: Call) -> Answer:
        rows = json.loads(call.stdin)["rows"]
        failure = "timed out" if self.serving in self.lost else ""
        return json.dumps({"own": "192.0.2.10", "failures": [failure for _row in rows]})

    def _chains(self, call: Call) -> Answer:
        asked = call.argv[3:]
        owners = {TAKEOVER_TABLE: self.owner, SERVICE_PROXY_TABLE: owner_chain(SERVICE_PROXY)}
        rows = [(family, name) for family, name in sorted(self.tables) if not asked or family == asked[0]]
        return "".join(
            f"table {family} {name} {{\n\tchain {owners.get(name, 'services')} {{\n\t}}\n}}\n" for family, name in rows
        )

    def _systemctl(self, call: Call) -> Answer:
        services: Any = self.services
        if call.argv[1] == "daemon-reload":
            self.condition = self.host.stat(DROP_IN) is not None
        if call.argv[1:] == ("start", "kube-proxy") and self.condition and self.host.stat(OUR_UNIT) is not None:
            return ""
        answer: Answer = services._systemctl(call)
        return answer
