# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a control plane as services: their command lines, the files these name, and the record. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from .._core.kinds import digest
from .._core.names import joined
from .._core.service import Service
from .aggregation import deployment as aggregation
from .api_servers import authentication_config, generic_api_server, hyper_mini, kube_api_server
from .audit import audit_files
from .certificates import ADMIN, CA, ETCD_CA, ETCD_CLIENT, authorities, certificates, node_certificates
from .controllers import controller_manager, scheduler
from .desired import ControlPlane
from .etcd import client_url, etcd
from .flags import Flags, kubeconfig_path, log_path
from .kubeconfig import referring
from .pki import key_path
from .profiles import (
    API_SERVER,
    CONTROLLER_MANAGER,
    ETCD,
    GENERIC_API_SERVER,
    HYPER_MINI,
    SCHEDULER,
    Flag,
)
from .record import Etcd, Member, Record

_COMMANDS: Mapping[str, Callable[[ControlPlane], Flags]] = {
    ETCD: etcd,
    API_SERVER: kube_api_server,
    GENERIC_API_SERVER: generic_api_server,
    HYPER_MINI: hyper_mini,
    CONTROLLER_MANAGER: controller_manager,
    SCHEDULER: scheduler,
}
# How much garbage the API server of everything may keep, beside what it uses (100 % unless said): measured, it then takes 47 MB
# less when idle, and is ready as soon.
_ENVIRONMENT: Mapping[str, tuple[tuple[str, str], ...]] = {API_SERVER: (("GOGC", "50"),)}
# A service was started with the content of these, whose names its command line gives.
_CREDENTIALS = (".crt", ".key", ".pub", ".pem", "/encryption.json")


def command_flags(plane: ControlPlane) -> dict[str, tuple[Flag, ...]]:
    """By process, in the order of starting. A list may be there in several flags, each with its reason: all of them count."""
    whole = plane.composition
    return {name: (*_COMMANDS[name](plane), *whole.flags[name]) for name in whole.processes}


def config_files(plane: ControlPlane) -> dict[str, str]:
    """Path and content of the files that the services read, beside certificates, keys and what holds keys."""
    return {
        **authentication_config(plane),
        **audit_files(plane),
        **(aggregation.config_files(plane) if plane.has_agent else {}),
        **{
            kubeconfig_path(plane, component): referring(
                name=joined(plane.name, component),
                server=plane.endpoint,
                authority=plane.pki(CA),
                certificate=plane.pki(f"{component}.crt"),
            )
            for component in (CONTROLLER_MANAGER, SCHEDULER)
            if component in plane.composition.processes
        },
    }


def services(plane: ControlPlane) -> list[Service]:
    """In the order of starting. A machine that goes down ends them in the reverse order: an API server waits for an etcd that
    has ended before it until it is killed."""
    configs = config_files(plane)
    commands = command_flags(plane)
    units = [f"{joined(plane.name, component)}.service" for component in commands]
    return [
        Service(
            name=joined(plane.name, component),
            argv=(binary_path(plane, component), *(f"--{flag.name}={flag.value}" for flag in flags)),
            log=log_path(plane, component),
            cgroup=f"{plane.cgroup}/{component}",
            config_digest=digest(*(configs[flag.value] for flag in flags if flag.value in configs)),
            env=_ENVIRONMENT.get(component, ()),
            after=tuple(units[:place]),
        )
        for place, (component, flags) in enumerate(commands.items())
    ]


def binary_path(plane: ControlPlane, component: str) -> str:
    return os.path.join(plane.bin_dir, component)


def credentials(argv: tuple[str, ...]) -> list[str]:
    """The certificate and key files that a service's command line names: it runs with their content at its start."""
    values = {word.partition("=")[2] for word in argv}
    return sorted(value for value in values if value.endswith(_CREDENTIALS))


def record(plane: ControlPlane) -> Record:
    made = [*authorities(plane), *certificates(plane), *node_certificates(plane)]
    return Record(
        state_dir=plane.state_dir,
        name=plane.name,
        kubernetes_version=plane.kubernetes_version,
        endpoint=plane.endpoint,
        kubeconfig=plane.kubeconfig,
        bin_dir=plane.bin_dir,
        authority=plane.pki(CA),
        client=plane.pki(ADMIN),
        etcd=_etcd_record(plane),
        choice=plane.choice,
        certificates=tuple(certificate.path for certificate in made),
        members=tuple(
            Member(
                component=component,
                service=os.path.join(plane.sv_dir, joined(plane.name, component)),
                log=log_path(plane, component),
                health=_health(plane, component),
                flags=flags,
            )
            for component, flags in command_flags(plane).items()
        ),
    )


def _etcd_record(plane: ControlPlane) -> Etcd:
    existing = plane.existing_etcd
    if existing is None:
        client = plane.pki(ETCD_CLIENT)
        return Etcd((client_url(plane),), plane.pki(ETCD_CA), client, key_path(client), prefix="/registry")
    return Etcd(existing.endpoints, existing.ca, existing.certificate, existing.key, prefix=existing.prefix)


def _health(plane: ControlPlane, component: str) -> str:
    if component == ETCD:
        return f"{client_url(plane)}/health"
    ports = {CONTROLLER_MANAGER: "controller_manager_port", SCHEDULER: "scheduler_port"}
    if component in ports:
        return f"https://{plane.address}:{plane.port(ports[component])}/healthz"
    return f"{plane.endpoint}/readyz"
