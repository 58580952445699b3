# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a control plane as services: their command lines, the files these name, and the record. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from ..._core.engine.kinds import digest
from ..._core.host.names import join_name
from ..._core.service.sandbox import Sandbox
from ..._core.service.service import Service
from ..aggregation import deployment as aggregation
from ..pki.certificates import CA, ETCD_CA, ETCD_CLIENT, authorities, certificates, node_certificates
from ..pki.kubeconfig import reference_kubeconfig
from ..pki.pki import key_path
from ..profiles.arguments import given_flags
from ..profiles.profiles import API_SERVER, CONTROLLER_MANAGER, ETCD, GENERIC_API_SERVER, HYPER_MINI, SCHEDULER, Flag
from ..record import Etcd, Member, Record
from ..request import ControlPlaneRequest
from .api_servers import authentication_config, generic_api_server, hyper_mini, kube_api_server
from .audit_log import audit_files
from .controllers import controller_manager, scheduler
from .etcd import client_url, etcd
from .flags import Flags, kubeconfig_path, log_path

_COMMANDS: Mapping[str, Callable[[ControlPlaneRequest], Flags]] = {
    ETCD: etcd,
    API_SERVER: kube_api_server,
    GENERIC_API_SERVER: generic_api_server,
    HYPER_MINI: hyper_mini,
    CONTROLLER_MANAGER: controller_manager,
    SCHEDULER: scheduler,
}
# GOGC is the garbage, relative to the live heap, at which Go collects (default 100 %). Measured with 50: kube-apiserver takes
# 47 MB less when idle, and is ready as soon.
_ENVIRONMENT: Mapping[str, tuple[tuple[str, str], ...]] = {API_SERVER: (("GOGC", "50"),)}
# Flags with paths that a component writes to.
_DATA_FLAGS = ("data-dir", "etcd-data-dir", "cert-dir")
_FILE_FLAGS = ("audit-log-path",)
# Endings of files whose content a service reads at its start.
_CREDENTIALS = (".crt", ".key", ".pub", ".pem", "/encryption.json")


def command_flags(request: ControlPlaneRequest) -> dict[str, tuple[Flag, ...]]:
    """By process, in the order of starting. A list flag may occur several times, once for each reason; the values add up."""
    own = _own_flags(request)
    given = given_flags(request.arguments, own)
    return {name: (*flags, *given[name]) for name, flags in own.items()}


def checked_flags(request: ControlPlaneRequest) -> dict[str, tuple[Flag, ...]]:
    """By process, those that not every release or build of a program has."""
    given = given_flags(request.arguments, _own_flags(request))
    return {name: (*flags, *given[name]) for name, flags in request.composition.flags.items()}


def _own_flags(request: ControlPlaneRequest) -> dict[str, tuple[Flag, ...]]:
    whole = request.composition
    return {name: (*_COMMANDS[name](request), *whole.flags[name]) for name in whole.processes}


def config_files(request: ControlPlaneRequest) -> dict[str, str]:
    """Path and content of the files that the services read, except those with certificates and keys."""
    return {
        **authentication_config(request),
        **audit_files(request),
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
    """In the order of starting. A shutdown stops them in the reverse order: an API server whose etcd has stopped would wait for
    it until it is killed."""
    configs = config_files(request)
    commands = command_flags(request)
    units = [f"{join_name(request.name, component)}.service" for component in commands]
    return [
        Service(
            name=join_name(request.name, component),
            argv=(binary_path(request, component), *(f"--{flag.name}={flag.value}" for flag in flags)),
            log=log_path(request, component),
            cgroup=f"{request.cgroup}/{component}",
            config_digest=digest(*(configs[flag.value] for flag in flags if flag.value in configs)),
            env=_ENVIRONMENT.get(component, ()),
            after=tuple(units[:place]),
            sandbox=_sandbox(request, flags),
        )
        for place, (component, flags) in enumerate(commands.items())
    ]


def _sandbox(request: ControlPlaneRequest, flags: tuple[Flag, ...]) -> Sandbox:
    """It may write its data and the audit log. A port below 1024 needs a capability."""
    directories = [flag.value for flag in flags if flag.name in _DATA_FLAGS]
    files = [os.path.dirname(flag.value) for flag in flags if flag.name in _FILE_FLAGS and flag.value.startswith("/")]
    is_low = any(flag.name.endswith("port") and flag.value.isdigit() and 0 < int(flag.value) < 1024 for flag in flags)
    return Sandbox(
        writes=tuple(dict.fromkeys([*directories, *files])),
        reads=(request.state_dir,),
        capabilities=("CAP_NET_BIND_SERVICE",) if is_low else (),
    )


def binary_path(request: ControlPlaneRequest, component: str) -> str:
    return os.path.join(request.bin_dir, component)


def credentials(argv: tuple[str, ...]) -> list[str]:
    """The certificate and key files in the command line of a service, which reads them at its start."""
    values = {word.partition("=")[2] for word in argv}
    return sorted(value for value in values if value.endswith(_CREDENTIALS))


def record(request: ControlPlaneRequest) -> Record:
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
                component=component,
                service=os.path.join(request.sv_dir, join_name(request.name, component)),
                log=log_path(request, component),
                health=_health(request, component),
                flags=flags,
            )
            for component, flags in command_flags(request).items()
        ),
    )


def _etcd_record(request: ControlPlaneRequest) -> Etcd:
    existing = request.existing_etcd
    if existing is None:
        client = request.pki(ETCD_CLIENT)
        return Etcd((client_url(request),), request.pki(ETCD_CA), client, key_path(client), prefix="/registry")
    return Etcd(existing.endpoints, existing.ca, existing.certificate, existing.key, prefix=existing.prefix)


def _health(request: ControlPlaneRequest, component: str) -> str:
    if component == ETCD:
        return f"{client_url(request)}/health"
    ports = {CONTROLLER_MANAGER: "controller_manager_port", SCHEDULER: "scheduler_port"}
    if component in ports:
        return f"https://{request.address}:{request.port(ports[component])}/healthz"
    return f"{request.endpoint}/readyz"
