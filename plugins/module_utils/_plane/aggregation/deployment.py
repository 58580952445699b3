# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Aggregation as part of a control plane: the agent as a service of it, and what the API server is told.

/run/ballast-NAME-aggregation/egress      the socket that the API server dials extension API servers through
STATE_DIR/lib/                            the agent, one file, and its command
STATE_DIR/config/aggregation.json         its settings
STATE_DIR/config/egress.json              what the API server reads
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from ..._core.agent.deployment import PYTHON, Installation, without_unset
from ..._core.agent.running import AgentKind
from ..._core.engine import Finding
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kinds import Kind, directory, fields, file
from ..._core.names import joined
from ..._core.plan import ABSENT, Resource, Value
from ..._core.program import PROGRAM_KINDS, program, sources_digest
from ..._core.service import Service, service_pid
from ..kubeconfig import referring
from ..pki import CLIENT, Certificate, key_path
from .agent.settings import parse_settings
from .api_services import AGENT_USER
from .messages import AGENT
from .objects import API_SERVICE_KINDS, access, registration

if TYPE_CHECKING:
    from ..desired import ControlPlane

    # Ansible brings to a node what a module imports, and the program is made of that there. Nothing of it runs in here.
    from .agent import main  # noqa: F401

NAME = "aggregation"
_STOP_SECONDS = 20
_FRONT_PROXY_CLIENT = "front-proxy-client.crt"
_PACKAGES = ("_core", "_plane/aggregation")


def certificate(plane: ControlPlane) -> Certificate:
    """That the agent is known by to the API server."""
    return Certificate(
        path=plane.pki(f"{NAME}.crt"),
        issuer=plane.pki("ca.crt"),
        common_name=AGENT_USER,
        usages=(CLIENT,),
        days=plane.certificate_days,
    )


def api_server_options(plane: ControlPlane) -> list[tuple[str, str]]:
    return [("egress-selector-config-file", _egress_path(plane))]


def config_files(plane: ControlPlane) -> dict[str, str]:
    """Path and content."""
    kubeconfig = referring(
        name=f"{plane.mark}-{NAME}",
        server=plane.endpoint,
        authority=plane.pki("ca.crt"),
        certificate=certificate(plane).path,
    )
    return {_kubeconfig_path(plane): kubeconfig, _egress_path(plane): egress_configuration(_socket_path(plane))}


def egress_configuration(socket: str) -> str:
    """EgressSelectorConfiguration: connections to services of the cluster are made through `socket` (KEP-1281). Those to
    etcd, and to webhooks by URL, are of other names there, and stay direct."""
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": socket}}}
    configuration = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    return json.dumps(configuration, indent=2) + "\n"


def resources(plane: ControlPlane, *, running: bool, group: str) -> list[Resource]:
    """The agent. Its files in `config_files` and its certificate come before, and its cgroup; a supervisor after it."""
    it = _installation(plane.state_dir, f"{plane.mark}-{NAME}")
    start = f'#!/bin/sh\nexec /usr/bin/env RUNTIME_DIRECTORY={it.sockets} {PYTHON} -I {it.program} "$@"\n'
    target = os.path.join(plane.sv_dir, it.service)
    value: Value = {
        "settings": _document(plane),
        "service": _service(plane, it).as_value(running=running),
        "in_effect": running,
    }
    return [
        directory(it.library, group=group),
        program(it.program, packages=it.packages, main=it.main, group=group),
        file(it.command, start, mode=0o755, group=group),
        directory(it.sockets, mode=0o700, group=group),
        Resource(kind=it.kind, target=target, value=value, title=f"service {it.service}", group=group),
    ]


def api_resources(plane: ControlPlane, *, group: str) -> list[Resource]:
    """Made when the API server is ready."""
    registered = [registration(plane.state_dir, each, group=group) for each in plane.api_services]
    return [*access(plane.state_dir, group=group), *registered]


@dataclass(frozen=True)
class _PlaneInstallation(Installation):
    """Of one control plane, of which a machine may have several."""

    state_dir: str = ""
    service: str = ""  # "ballast-lab-aggregation"

    @property
    def kind(self) -> str:
        return "aggregation-agent"

    @property
    def library(self) -> str:
        return os.path.join(self.state_dir, "lib")

    @property
    def command(self) -> str:
        return os.path.join(self.library, self.service)

    @property
    def config(self) -> str:
        return os.path.join(self.state_dir, "config", f"{NAME}.json")

    @property
    def sockets(self) -> str:
        return f"/run/{self.service}"

    @property
    def logs(self) -> str:
        return os.path.join(self.state_dir, "log")


class AggregationAgentKind:
    """Value: that of `AgentKind`. Whether it works with its settings is not waited for when it is written, but by
    `findings`: before its supervisor it does not run."""

    def read(self, host: Host, target: str) -> Value:
        return _agent_at(target).read(host, target)

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        running = fields(after)["service"] != ABSENT and bool(fields(fields(after)["service"])["running"])
        # One that is to be down is not asked first whether it answers.
        _agent_at(target).write(host, target, {**fields(after), "in_effect": False}, before if running else ABSENT)

    def remove(self, host: Host, target: str, before: Value) -> None:
        _agent_at(target).remove(host, target, before)


KINDS: Mapping[str, Kind] = {**API_SERVICE_KINDS, **PROGRAM_KINDS, "aggregation-agent": AggregationAgentKind()}


def findings(plane: ControlPlane, host: Host, progress: Progress) -> list[Finding]:
    """Empty where the agent works with its settings; it is waited for."""
    return _agent_at(os.path.join(plane.sv_dir, f"{plane.mark}-{NAME}")).finding(host, progress)


def reported(state_dir: str, name: str, host: Host) -> Optional[dict[str, Any]]:
    """The agent of the control plane `name`, its process, and what it says of APIServices, None while it does not answer;
    None where there is no agent."""
    it = _installation(state_dir, joined(name, NAME))
    target = os.path.join(state_dir, "sv", it.service)
    if host.stat(target) is None:
        return None
    found = AgentKind(it).status(host)
    return {
        "command": it.command,
        "log": it.log,
        "pid": service_pid(host, target),
        "api_services": None if found is None else found.get("api_services"),
        "problems": [] if found is None else [str(text) for text in found.get("problems") or []],
    }


def _agent_at(target: str) -> AgentKind:
    """`target` is STATE_DIR/sv/NAME."""
    return AgentKind(_installation(os.path.dirname(os.path.dirname(target)), os.path.basename(target)))


def _installation(state_dir: str, service: str) -> _PlaneInstallation:
    return _PlaneInstallation(
        agent=AGENT,
        packages=_PACKAGES,
        main="_plane.aggregation.agent.main.main",
        needed={},
        parse=lambda text, name: parse_settings(text, name=name),
        restart_keys=("metrics", "socket"),
        cgroup="",  # that of the control plane
        state_dir=state_dir,
        service=service,
    )


def _document(plane: ControlPlane) -> dict[str, Value]:
    listen = {(each.host, each.port): each.address for each in plane.api_services}
    services: list[Value] = [
        {"host": host, "port": port, "address": address} for (host, port), address in sorted(listen.items())
    ]
    proxy = plane.pki(_FRONT_PROXY_CLIENT)
    document: dict[str, Value] = without_unset(
        {
            "kubeconfig": _kubeconfig_path(plane),
            "socket": _socket_path(plane),
            "certificate": proxy,
            "key": key_path(proxy),
            "services": services,
            "metrics": plane.aggregation.metrics or None,
        }
    )
    return document


def _service(plane: ControlPlane, it: _PlaneInstallation) -> Service:
    return Service(
        name=it.service,
        argv=(PYTHON, "-I", it.program, "--config", it.config),
        log=it.log,
        cgroup=f"{plane.cgroup}/{NAME}",
        config_digest=sources_digest(it.main, it.packages),
        env=(("RUNTIME_DIRECTORY", it.sockets),),
        reloads=True,
        stop_seconds=_STOP_SECONDS,
    )


def _socket_path(plane: ControlPlane) -> str:
    return f"/run/{plane.mark}-{NAME}/egress"


def _kubeconfig_path(plane: ControlPlane) -> str:
    return plane.at("config", f"{NAME}.kubeconfig")


def _egress_path(plane: ControlPlane) -> str:
    return plane.at("config", "egress.json")
