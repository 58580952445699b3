# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Control planes: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as supervised services."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._core.cgroup import CGROUP_KINDS, Limits, cgroup
from .._core.engine import Finding, ResourceEngine
from .._core.events import Progress
from .._core.host import Host
from .._core.kinds import BASE_KINDS, directory, fields, file
from .._core.plan import ABSENT, Plan, Resource, State, Step, Value
from .._core.service import Service, SupervisorKind, supervisor
from .api import API_KINDS, api_object
from .components import (
    API_SERVER,
    KUBELET_CLIENT,
    authorities,
    certificates,
    config_files,
    credentials,
    node_certificates,
    record,
    services,
)
from .credentialed import CredentialedServiceKind, credentialed
from .desired import ABSENT_STATE, PRESENT, STOPPED, ControlPlane
from .kubeconfig import KUBECONFIG_KINDS, embedded_paths, embedding
from .messages import MESSAGES
from .pki import PKI_KINDS, key_pair, key_path, paths_of, public_path
from .preflight import check_conflicts, check_parts
from .ready import wait_for_end, wait_for_plane
from .record import load_record, record_path
from .report import report, running_version

_PKI, _SERVICES, _API = "control plane certificates", "control plane services", "control plane"


class PlaneEngine(ResourceEngine[ControlPlane]):
    name = "plane"
    kinds = {
        **BASE_KINDS,
        **CGROUP_KINDS,
        **PKI_KINDS,
        **KUBECONFIG_KINDS,
        **API_KINDS,
        "service": CredentialedServiceKind(),
        "supervisor": SupervisorKind(),
    }

    def resources(self, desired: ControlPlane) -> list[Resource]:
        if desired.state == ABSENT_STATE:
            return []
        running = desired.state == PRESENT
        return [
            *_directories(desired),
            *(certificate.resource(group=_PKI) for certificate in authorities(desired)),
            *(certificate.resource(group=_PKI) for certificate in certificates(desired)),
            key_pair(desired.pki("sa.key"), group=_PKI),
            *(certificate.resource(group=_PKI) for certificate in node_certificates(desired)),
            embedding(
                desired.kubeconfig,
                name=desired.mark,
                server=desired.endpoint,
                authority=desired.pki("ca.crt"),
                certificate=desired.pki("admin.crt"),
                group=_PKI,
            ),
            *(file(path, text, mode=0o600, group=_PKI) for path, text in sorted(config_files(desired).items())),
            file(record_path(desired.state_dir), record(desired).as_text(), mode=0o600, group=_PKI),
            # After the directories, so that a removal ends what writes into them before it removes them.
            cgroup(desired.cgroup, Limits(), group=_SERVICES),
            *(credentialed(desired.sv_dir, wanted, running=running, group=_SERVICES) for wanted in services(desired)),
            *([supervisor(desired.sv_dir, group=_SERVICES)] if running else []),
            _kubelet_binding(desired),
        ]

    def observe(self, desired: ControlPlane, host: Host) -> State:
        state = super().observe(desired, host)
        if desired.state == PRESENT:
            starting = [
                resource.target.removeprefix(f"{desired.sv_dir}/{desired.mark}-")
                for resource in self.resources(desired)
                if resource.kind == "service" and state.values[resource.key] != resource.value
            ]
            check_conflicts(desired, host, starting=starting, recorded=state.recorded)
        return state

    def plan(self, desired: ControlPlane, state: State) -> Plan:
        """The plan, in which what rests on a certificate that changes is made anew too.

        UserError when it would change what the data is bound to.
        """
        _refuse_other_service_network(desired, state)
        values = dict(state.values)
        if desired.state == ABSENT_STATE:
            # They go with the data of etcd, and nothing may answer any more when their turn comes.
            values.update({old.key: ABSENT for old in state.recorded if old.kind == "api-object"})
        changing: set[str] = set()
        for resource in self.resources(desired):
            if resource.kind == "api-object" and desired.state == STOPPED:
                values[resource.key] = resource.value  # kept with the data, and not asked while nothing answers
            found = values[resource.key]
            if found == resource.value and changing.intersection(_rests_on(resource)):
                values[resource.key] = {**fields(found), "fault": "what it was made from changes"}
            if values[resource.key] != resource.value:
                changing.update(_makes(resource))
        return super().plan(desired, State(recorded=state.recorded, values=values))

    def apply(self, plan: Plan, desired: ControlPlane, host: Host, progress: Progress) -> tuple[Step, ...]:
        if desired.state == PRESENT and plan.steps:
            check_parts(desired, host)
        done = super().apply(plan, desired, host, progress)
        if desired.state == ABSENT_STATE:
            _remove_bookkeeping(desired, host)
        return done

    def verify(self, desired: ControlPlane, host: Host, progress: Progress) -> list[Finding]:
        if desired.state == ABSENT_STATE:
            return []
        if desired.state == STOPPED:
            wait_for_end(host, progress, desired.cgroup, log_dir=desired.log_dir)
            return []
        asked = record(desired)
        wait_for_plane(host, progress, asked)
        found = running_version(host, asked) or "nothing"
        progress.done(_API, f"Kubernetes {found} at {desired.endpoint}")
        if found.partition("+")[0] == desired.kubernetes_version:
            return []
        error = MESSAGES.error("plane-version-differs", found_version=found, version=desired.kubernetes_version)
        return [Finding(id=error.id, subject=desired.endpoint, text=error.text, remedy=error.remedy)]

    def report(self, desired: ControlPlane, host: Host) -> dict[str, object]:
        return {} if desired.state == ABSENT_STATE else report(host, record(desired))


@dataclass(frozen=True)
class Reading:
    """A control plane that is read, known by its state directory alone."""

    state_dir: str

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Reading:
        return cls(state_dir=str(params["state_dir"]).rstrip("/"))


class PlaneReader(ResourceEngine[Reading]):
    """The engine of control_plane_info."""

    name = "plane"
    kinds = PlaneEngine.kinds

    def resources(self, desired: Reading) -> list[Resource]:
        return []

    def verify(self, desired: Reading, host: Host, progress: Progress) -> list[Finding]:
        return []

    def report(self, desired: Reading, host: Host) -> dict[str, object]:
        found = load_record(host, desired.state_dir)
        if found is None:
            raise MESSAGES.error("plane-not-there", path=desired.state_dir)
        return report(host, found)


def _remove_bookkeeping(plane: ControlPlane, host: Host) -> None:
    """Remove the state directory when all that it holds is what runs leave: their progress, or a killed one's lock."""
    left = set(host.listdir(plane.state_dir))
    if left and left <= {"events.jsonl", "ledger.jsonl", "lock"}:
        with host.lock(plane.at("lock")):
            host.remove_tree(plane.state_dir)


def _directories(plane: ControlPlane) -> list[Resource]:
    nodes = [plane.pki("nodes", node.name) for node in plane.nodes]
    private = [plane.pki(), plane.pki("nodes"), *nodes, plane.at("config"), plane.at("etcd")]
    return [
        *(directory(path, mode=0o700, group=_PKI) for path in private),
        *(directory(path, group=_PKI) for path in (plane.at("flexvolume"), plane.log_dir, plane.sv_dir)),
    ]


def _refuse_other_service_network(plane: ControlPlane, state: State) -> None:
    """The API server has allocated addresses of the network it was started with; it cannot move to another."""
    if plane.state == ABSENT_STATE:
        return
    (wanted,) = (each for each in services(plane) if each.name.endswith(f"-{API_SERVER}"))
    found = state.values[("service", os.path.join(plane.sv_dir, wanted.name))]
    option = "--service-cluster-ip-range="
    if found == ABSENT or f"{option}{plane.service_cidr}" in Service.from_value(_without_fault(found)).argv:
        return
    networks = [word for word in Service.from_value(_without_fault(found)).argv if word.startswith(option)]
    raise MESSAGES.error(
        "plane-service-cidr-fixed",
        value=plane.service_cidr,
        path=plane.at("etcd"),
        found=", ".join(word[len(option) :] for word in networks),
    )


def _kubelet_binding(plane: ControlPlane) -> Resource:
    """Lets the API server, under the name in its client certificate, use the kubelets' API (logs, exec), and no more.

    kube-proxy needs none: its user is bound to system:node-proxier by the API server itself.
    """
    rbac = "rbac.authorization.k8s.io"
    return api_object(
        plane.state_dir,
        f"/apis/{rbac}/v1/clusterrolebindings/ballast:{KUBELET_CLIENT}",
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": KUBELET_CLIENT}],
        },
        group=_API,
    )


def _makes(resource: Resource) -> list[str]:
    """The certificate and key files that a resource consists of."""
    if resource.kind == "certificate":
        path, _issuer = paths_of(resource)
        return [path, key_path(path)]
    return [resource.target, public_path(resource.target)] if resource.kind == "key-pair" else []


def _rests_on(resource: Resource) -> list[str]:
    """The certificate and key files that a resource is made from, or runs with."""
    if resource.kind == "certificate":
        path, issuer = paths_of(resource)
        return [issuer] if issuer != path else []
    if resource.kind == "kubeconfig":
        return embedded_paths(resource)
    if resource.kind == "service":
        return credentials(Service.from_value(_without_fault(resource.value)).argv)
    return []


def _without_fault(value: Value) -> Value:
    return {name: part for name, part in fields(value).items() if name != "fault"}


ENGINE = PlaneEngine()
READER = PlaneReader()
