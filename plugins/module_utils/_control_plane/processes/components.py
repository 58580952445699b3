# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a control plane as services: their command lines, the files named in these, and the record. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..._core.engine.kinds import digest
from ..._core.host.names import join_name
from ..._core.service.sandbox import Sandbox
from ..._core.service.service import Service
from ..._core.text.ip_families import with_port
from ..aggregation import deployment as aggregation
from ..pki.certificates import CA, ETCD_CA, ETCD_CLIENT, authorities, certificates, node_certificates
from ..pki.kubeconfig import reference_kubeconfig
from ..pki.pki import key_path
from ..profiles.arguments import ARGUMENTS, given_flags
from ..profiles.profiles import API_SERVER, CONTROLLER_MANAGER, ETCD, GENERIC_API_SERVER, HYPER_MINI, SCHEDULER, Flag
from ..record import LOAD_BALANCER, LOAD_BALANCER_PATH, Etcd, Member, Record
from ..request import ControlPlaneRequest
from .api_servers import authentication_config, generic_api_server, hyper_mini, kube_api_server
from .audit_log import audit_files
from .controllers import controller_manager, scheduler
from .etcd import client_url, etcd
from .flags import Flags, kubeconfig_path, log_path
from .load_balancer import load_balancer_config, load_balancer_flags

_COMMANDS: Mapping[str, Callable[[ControlPlaneRequest], Flags]] = {
    ETCD: etcd,
    API_SERVER: kube_api_server,
    GENERIC_API_SERVER: generic_api_server,
    HYPER_MINI: hyper_mini,
    CONTROLLER_MANAGER: controller_manager,
    SCHEDULER: scheduler,
}
# GOGC is the garbage, relative to the live heap, at which Go collects (default 100 %). Measured with 50: kube-apiserver takes
# 47 MB less when idle, and is ready just as soon.
_ENVIRONMENT: Mapping[str, tuple[tuple[str, str], ...]] = {API_SERVER: (("GOGC", "50"),)}
# Flags with paths that a component writes to.
_DATA_FLAGS = ("data-dir", "etcd-data-dir", "cert-dir")
_FILE_FLAGS = ("audit-log-path",)
# Endings of files whose content a service reads at its start.
_CREDENTIALS = (".crt", ".key", ".pub", ".pem", "/encryption.json")


@dataclass(frozen=True)
class ProcessPlan:
    """A process of one member, or the load balancer of all. A list flag may occur several times, once for each reason; the
    values add up."""

    component: str  # "etcd"
    number: int  # of its member
    name: str  # "etcd", or "etcd-2" of the second member
    argv: tuple[str, ...]
    flags: tuple[Flag, ...]
    health: str  # URL
    log: str


def plan_processes(request: ControlPlaneRequest) -> list[ProcessPlan]:
    """All processes in starting order: etcd of every member, then the API servers, and so on."""
    planned: list[ProcessPlan] = []
    for component in request.composition.processes:
        planned += [_member_process(member, component) for member in request.each_member]
        if component == API_SERVER and request.is_balanced:
            balancing = load_balancer_flags(request)
            planned.append(
                ProcessPlan(
                    component=LOAD_BALANCER,
                    number=request.number,
                    name=LOAD_BALANCER,
                    argv=(
                        LOAD_BALANCER_PATH,
                        *(word for each in balancing for word in (f"-{each.name}", each.value) if word),
                    ),
                    flags=tuple(balancing),
                    health=f"{request.endpoint}/readyz",
                    log=log_path(request, LOAD_BALANCER),
                )
            )
    return planned


def _member_process(member: ControlPlaneRequest, component: str) -> ProcessPlan:
    own = _own_flags(member)
    flags = (*own[component], *given_flags(member.arguments, own)[component])
    return ProcessPlan(
        component=component,
        number=member.number,
        name=member.in_member(component),
        argv=(binary_path(member, component), *(f"--{flag.name}={flag.value}" for flag in flags)),
        flags=flags,
        health=_health(member, component),
        log=log_path(member, component),
    )


def command_flags(request: ControlPlaneRequest) -> dict[str, tuple[Flag, ...]]:
    """Flags by name of the process, in starting order."""
    return {process.name: process.flags for process in plan_processes(request)}


def checked_flags(request: ControlPlaneRequest, *, prefix: str = ARGUMENTS) -> dict[str, tuple[Flag, ...]]:
    """By process, those that not every release or build of a program has. `prefix` as for `given_flags`."""
    given = given_flags(request.arguments, _own_flags(request), prefix=prefix)
    return {name: (*flags, *given[name]) for name, flags in request.composition.flags.items()}


def given_arguments(request: ControlPlaneRequest) -> dict[str, tuple[Flag, ...]]:
    """By process, those of the user and the feature gates."""
    return given_flags(request.arguments, _own_flags(request))


def _own_flags(request: ControlPlaneRequest) -> dict[str, tuple[Flag, ...]]:
    whole = request.composition
    return {name: (*_COMMANDS[name](request), *whole.flags[name]) for name in whole.processes}


def config_files(request: ControlPlaneRequest) -> dict[str, str]:
    """Content by path of the files that the services read, except those with certificates and keys."""
    return {
        **authentication_config(request),
        **audit_files(request),
        **load_balancer_config(request),
        **(aggregation.config_files(request) if request.has_agent else {}),
        **{
            kubeconfig_path(request, component): reference_kubeconfig(
                name=join_name(request.name, component),
                server=request.endpoint,
                authority=request.pki(CA),
                certificate=request.pki(f"{component}.crt"),
            )
            for component in (CONTROLLER_MANAGER, SCHEDULER)
            if component in request.composition.processes
        },
    }


def services(request: ControlPlaneRequest) -> list[Service]:
    """All services in starting order. A shutdown stops them in the reverse order: an API server whose etcd has stopped would
    wait for it until it is killed."""
    configs = config_files(request)
    planned = plan_processes(request)
    units = [f"{join_name(request.name, process.name)}.service" for process in planned]
    return [
        Service(
            name=join_name(request.name, process.name),
            argv=process.argv,
            log=process.log,
            cgroup=f"{request.cgroup}/{process.name}",
            config_digest=digest(*(configs[flag.value] for flag in process.flags if flag.value in configs)),
            env=_ENVIRONMENT.get(process.component, ()),
            after=tuple(units[:place]),
            sandbox=_sandbox(request, process),
        )
        for place, process in enumerate(planned)
    ]


def _sandbox(request: ControlPlaneRequest, process: ProcessPlan) -> Sandbox:
    """The process may write its data and the audit log. A port below 1024 needs a capability."""
    flags = process.flags
    directories = [flag.value for flag in flags if flag.name in _DATA_FLAGS]
    files = [os.path.dirname(flag.value) for flag in flags if flag.name in _FILE_FLAGS and flag.value.startswith("/")]
    ports = [int(flag.value) for flag in flags if flag.name.endswith("port") and flag.value.isdigit()]
    if process.component == LOAD_BALANCER:
        ports.append(request.port("secure_port"))  # in its configuration file, not in its flags
    is_low = any(0 < port < 1024 for port in ports)
    return Sandbox(
        writes=tuple(dict.fromkeys([*directories, *files])),
        reads=(request.state_dir,),
        capabilities=("CAP_NET_BIND_SERVICE",) if is_low else (),
    )


def binary_path(request: ControlPlaneRequest, component: str) -> str:
    return LOAD_BALANCER_PATH if component == LOAD_BALANCER else os.path.join(request.bin_dir, component)


def credentials(argv: tuple[str, ...]) -> list[str]:
    """The certificate and key files in the command line of a service, which reads them at its start."""
    values = {word.partition("=")[2] for word in argv}
    return sorted(value for value in values if value.endswith(_CREDENTIALS))


def record(request: ControlPlaneRequest) -> Record:
    """What a run records of the requested control plane, as a value."""
    made = [*authorities(request), *certificates(request), *node_certificates(request)]
    return Record(
        state_dir=request.state_dir,
        name=request.name,
        kubernetes_version=request.kubernetes_version,
        endpoint=request.endpoint,
        kubeconfig=request.kubeconfig,
        bin_dir=request.bin_dir,
        authority=request.pki(CA),
        etcd=_etcd_record(request),
        choice=request.choice,
        certificates=tuple(certificate.path for certificate in made),
        members=tuple(
            Member(
                component=process.component,
                service=os.path.join(request.sv_dir, join_name(request.name, process.name)),
                log=process.log,
                health=process.health,
                flags=process.flags,
                number=process.number,
            )
            for process in plan_processes(request)
        ),
    )


def _etcd_record(request: ControlPlaneRequest) -> Etcd:
    existing = request.existing_etcd
    if existing is None:
        client = request.pki(ETCD_CLIENT)
        urls = tuple(client_url(member) for member in request.each_member)
        return Etcd(urls, request.pki(ETCD_CA), client, key_path(client), prefix="/registry")
    return Etcd(existing.endpoints, existing.ca, existing.certificate, existing.key, prefix=existing.prefix)


def _health(member: ControlPlaneRequest, component: str) -> str:
    if component == ETCD:
        return f"{client_url(member)}/health"
    ports = {CONTROLLER_MANAGER: "controller_manager_port", SCHEDULER: "scheduler_port"}
    if component in ports:
        return f"https://{with_port(member.listen_address, member.port(ports[component]))}/healthz"
    return f"https://{with_port(member.listen_address, member.port('secure_port'))}/readyz"
