# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Aggregation as part of a control plane: the agent as one of its services, and the API server's configuration.

/run/ballast-NAME-aggregation/egress      the socket through which the API server dials extension API servers
STATE_DIR/lib/                            the agent, one file, and its command
STATE_DIR/config/aggregation.json         its settings
STATE_DIR/config/egress.json              the API server's egress configuration
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from ..._agent.installation import PYTHON, Installation, without_unset
from ..._agent.program import PROGRAM_KINDS, program, sources_digest
from ..._agent.running import AgentKind
from ..._core.engine.context import Context
from ..._core.engine.engine import Finding
from ..._core.engine.events import Progress
from ..._core.engine.kinds import Kind, directory, fields, file
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.host.host import Host
from ..._core.host.names import join_name
from ..._core.service.service import Service
from ..._core.service.services import service_pid
from ..pki.kubeconfig import reference_kubeconfig
from ..pki.pki import CLIENT, Certificate, key_path
from .agent.settings import RESTART_KEYS, parse_settings
from .api_services import AGENT_USER
from .messages import AGENT
from .objects import API_SERVICE_KINDS, agent_rights, api_service_resource

if TYPE_CHECKING:
    from ..request import ControlPlaneRequest

    # Ansible ships a node only the imported files, and the agent's program is built from them. The module runs none of it.
    from .agent import main  # noqa: F401

NAME = "aggregation"
_STOP_SECONDS = 20
_FRONT_PROXY_CLIENT = "front-proxy-client.crt"
_PACKAGES = ("_agent", "_core", "_control_plane/aggregation")


def certificate(request: ControlPlaneRequest) -> Certificate:
    """The client certificate of the agent for the API server."""
    return Certificate(
        path=request.pki(f"{NAME}.crt"),
        issuer=request.pki("ca.crt"),
        common_name=AGENT_USER,
        usages=(CLIENT,),
        days=request.certificate_days,
    )


def api_server_options(request: ControlPlaneRequest) -> list[tuple[str, str]]:
    """Names, without dashes, and values of the flags by which the API server connects through the agent."""
    return [("egress-selector-config-file", _egress_path(request))]


def config_files(request: ControlPlaneRequest) -> dict[str, str]:
    """The content of each file by path."""
    kubeconfig = reference_kubeconfig(
        name=f"{request.mark}-{NAME}",
        server=request.endpoint,
        authority=request.pki("ca.crt"),
        certificate=certificate(request).path,
    )
    egress = {_egress_path(request): egress_configuration(_socket_path(request))} if request.has_egress else {}
    return {_kubeconfig_path(request): kubeconfig, **egress}


def egress_configuration(socket: str) -> str:
    """EgressSelectorConfiguration: connections to Services of the cluster go through `socket` (KEP-1281). Those to etcd and to
    webhook URLs stay direct."""
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": socket}}}
    configuration = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    return json.dumps(configuration, indent=2) + "\n"


def resources(request: ControlPlaneRequest, *, running: bool, group: str) -> list[Resource]:
    """The agent. Its certificate, its cgroup and the files of `config_files` come before it, the supervisor after it."""
    installation = _installation(request.state_dir, f"{request.mark}-{NAME}")
    start = f'#!/bin/sh\nexec /usr/bin/env RUNTIME_DIRECTORY={installation.sockets} {PYTHON} -I {installation.program} "$@"\n'
    target = os.path.join(request.sv_dir, installation.service)
    value: Value = {
        "settings": _document(request),
        "service": _service(request, installation).as_value(running=running),
        "in_effect": running,
    }
    return [
        directory(installation.library, group=group),
        program(installation.program, packages=installation.packages, main=installation.main, group=group),
        file(installation.command, start, mode=0o755, group=group),
        directory(installation.sockets, mode=0o700, group=group),
        Resource(
            kind=installation.kind, target=target, value=value, title=f"service {installation.service}", group=group
        ),
    ]


def api_resources(request: ControlPlaneRequest, *, group: str) -> list[Resource]:
    """Objects that are made when the API server is ready."""
    registered = [api_service_resource(request.state_dir, each, group=group) for each in request.api_services]
    return [*agent_rights(request.state_dir, group=group), *registered]


@dataclass(frozen=True)
class _AgentInstallation(Installation):
    """The agent of one control plane; a machine may have several."""

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
    """Value: that of `AgentKind`. `write` does not wait until the settings are in effect, as the agent does not run before its
    supervisor does; `verify_agent` waits."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return _agent_at(target).read(ctx, target)

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        running = fields(after)["service"] != ABSENT and bool(fields(fields(after)["service"])["running"])
        # An agent that is to be stopped need not answer first.
        _agent_at(target).write(ctx, target, {**fields(after), "in_effect": False}, before if running else ABSENT)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        _agent_at(target).remove(ctx, target, before)


KINDS: Mapping[str, Kind] = {**API_SERVICE_KINDS, **PROGRAM_KINDS, "aggregation-agent": AggregationAgentKind()}


def verify_agent(request: ControlPlaneRequest, host: Host, progress: Progress) -> list[Finding]:
    """Wait for the agent. Empty when it works with its settings."""
    return _agent_at(os.path.join(request.sv_dir, f"{request.mark}-{NAME}")).finding(host, progress)


def read_agent(state_dir: str, name: str, host: Host) -> Optional[dict[str, Any]]:
    """The agent of the control plane `name`: its process, and its view of APIServices, which is None while it does not answer.
    None when there is no agent."""
    installation = _installation(state_dir, join_name(name, NAME))
    target = os.path.join(state_dir, "sv", installation.service)
    if host.stat(target) is None:
        return None
    status = AgentKind(installation).status(host)
    return {
        "command": installation.command,
        "log": installation.log,
        "pid": service_pid(host, target),
        "api_services": None if status is None else status.get("api_services"),
        "problems": [] if status is None else [str(text) for text in status.get("problems") or []],
    }


def _agent_at(target: str) -> AgentKind:
    """`target` is STATE_DIR/sv/NAME."""
    return AgentKind(_installation(os.path.dirname(os.path.dirname(target)), os.path.basename(target)))


def _installation(state_dir: str, service: str) -> _AgentInstallation:
    return _AgentInstallation(
        agent=AGENT,
        packages=_PACKAGES,
        main="_control_plane.aggregation.agent.main.main",
        needed={},
        parse=lambda text, name: parse_settings(text, name=name),
        restart_keys=RESTART_KEYS,
        cgroup="",  # the control plane's cgroup
        state_dir=state_dir,
        service=service,
    )


def _document(request: ControlPlaneRequest) -> dict[str, Value]:
    listen = {(each.host, each.port): each.address for each in request.api_services}
    services: list[Value] = [
        {"host": host, "port": port, "address": address} for (host, port), address in sorted(listen.items())
    ]
    proxy = request.pki(_FRONT_PROXY_CLIENT)
    document: dict[str, Value] = without_unset(
        {
            "kubeconfig": _kubeconfig_path(request),
            "socket": _socket_path(request) if request.has_egress else None,
            "certificate": proxy,
            "key": key_path(proxy),
            "services": services or None,
            "metrics": request.aggregation.metrics or None,
        }
    )
    return document


def _service(request: ControlPlaneRequest, it: _AgentInstallation) -> Service:
    return Service(
        name=it.service,
        argv=(PYTHON, "-I", it.program, "--config", it.config),
        log=it.log,
        cgroup=f"{request.cgroup}/{NAME}",
        config_digest=sources_digest(it.main, it.packages),
        env=(("RUNTIME_DIRECTORY", it.sockets),),
        reloads=True,
        stop_seconds=_STOP_SECONDS,
        sandbox=it.sandbox_for({}),
    )


def _socket_path(request: ControlPlaneRequest) -> str:
    return f"/run/{request.mark}-{NAME}/egress"


def _kubeconfig_path(request: ControlPlaneRequest) -> str:
    return request.at("config", f"{NAME}.kubeconfig")


def _egress_path(request: ControlPlaneRequest) -> str:
    return request.at("config", "egress.json")
