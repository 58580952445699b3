# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Control planes of every profile and shape: their processes as supervised services."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .._core.cgroup import CGROUP_KINDS, Limits, cgroup
from .._core.engine import Finding, ResourceEngine
from .._core.events import Progress
from .._core.host import Host
from .._core.kinds import BASE_KINDS, directory, fields, file
from .._core.names import joined
from .._core.plan import ABSENT, Plan, Resource, State, Step, Value
from .._core.service import Service, SupervisorKind, supervisor
from .aggregation import deployment as aggregation
from .aggregation.objects import API_SERVICE_KINDS
from .api import API_KINDS, api_object
from .certificates import ADMIN, CA, KUBELET_CLIENT_USER, authorities, certificates, node_certificates
from .changing import adapted, without_fault
from .components import command_flags, config_files, credentials, record, services
from .controllers import flex_dir
from .credentialed import CredentialedServiceKind, credentialed
from .desired import ABSENT_STATE, PRESENT, STOPPED, ControlPlane
from .encryption import ENCRYPTION_KINDS, encryption_resources
from .etcd import data_dir
from .explained import ExplainedPlan, explained_difference
from .kubeconfig import KUBECONFIG_KINDS, embedded_paths, embedding
from .messages import MESSAGES
from .operations.aside import without_aside
from .operations.renewal import renewals
from .operations.restored import verify_restored
from .operations.upgrade import refuse_unfit_data
from .pki import PKI_KINDS, key_pair, key_path, paths_of, public_path
from .preflight import check_conflicts, check_parts
from .ready import wait_for_end, wait_for_plane
from .record import needed_record, record_path
from .report import report, running_version

_PKI, _SERVICES, _API = "control plane certificates", "control plane services", "control plane"
_IN_THE_API = (*API_KINDS, *API_SERVICE_KINDS)


class PlaneEngine(ResourceEngine[ControlPlane]):
    name = "plane"
    kinds = {
        **BASE_KINDS,
        **CGROUP_KINDS,
        **PKI_KINDS,
        **KUBECONFIG_KINDS,
        **API_KINDS,
        **ENCRYPTION_KINDS,
        **aggregation.KINDS,
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
                authority=desired.pki(CA),
                certificate=desired.pki(ADMIN),
                group=_PKI,
            ),
            *(file(path, text, mode=0o600, group=_PKI) for path, text in sorted(config_files(desired).items())),
            *encryption_resources(desired, group=_PKI),
            file(record_path(desired.state_dir), record(desired).as_text(), mode=0o600, group=_PKI),
            # After the directories, so that a removal ends what writes into them before it removes them.
            cgroup(desired.cgroup, Limits(), group=_SERVICES),
            *(credentialed(desired.sv_dir, wanted, running=running, group=_SERVICES) for wanted in services(desired)),
            *(aggregation.resources(desired, running=running, group=_SERVICES) if desired.has_agent else []),
            *([supervisor(desired.sv_dir, group=_SERVICES)] if running else []),
            *([_kubelet_binding(desired)] if desired.has_pods else []),
            *(aggregation.api_resources(desired, group=_API) if desired.has_agent else []),
        ]

    def observe(self, desired: ControlPlane, host: Host) -> State:
        state = super().observe(desired, host)
        refuse_unfit_data(desired, host)
        if desired.state == PRESENT:
            changing = [
                resource.target
                for resource in self.resources(desired)
                if resource.kind == "service" and state.values[resource.key] != resource.value
            ]
            starting = [name for name in desired.composition.processes if _target(desired, name) in changing]
            check_conflicts(desired, host, starting=starting, recorded=state.recorded)
        return state

    def plan(self, desired: ControlPlane, state: State) -> ExplainedPlan:
        """The plan, in which what rests on a certificate that changes is made anew too.

        UserError when it would change what the data is bound to.
        """
        desired = adapted(desired, state)
        wanted, values = self.resources(desired), dict(state.values)
        if desired.state == ABSENT_STATE:
            # They go with the data of etcd, and nothing may answer any more when their turn comes.
            values.update({old.key: ABSENT for old in state.recorded if old.kind in _IN_THE_API})
        if desired.renew_certificates:
            values.update(renewals(wanted, values))
        changing: set[str] = set()
        for resource in wanted:
            if resource.kind in _IN_THE_API and desired.state == STOPPED:
                values[resource.key] = resource.value  # kept with the data, and not asked while nothing answers
            found = values[resource.key]
            if found == resource.value and changing.intersection(_rests_on(resource)):
                values[resource.key] = {**fields(found), "fault": "what it was made from changes"}
            if values[resource.key] != resource.value:
                changing.update(_makes(resource))
        if desired.state == ABSENT_STATE:
            plan = super().plan(desired, State(recorded=state.recorded, values=values))
            return ExplainedPlan(plan.steps, plan.policy, plan.based_on)
        first = _all_stopped(desired, wanted, values)
        values.update({step.key: ABSENT for step in first})
        plan = super().plan(desired, State(recorded=without_aside(state.recorded), values=values))
        reasons = {_target(desired, name): flags for name, flags in command_flags(desired).items()}
        # What is to be removed from the API comes before everything, while it answers.
        in_the_api = [step for step in plan.steps if step.kind in _IN_THE_API and step.after == ABSENT]
        rest = [step for step in plan.steps if step not in in_the_api]
        return ExplainedPlan((*in_the_api, *first, *rest), plan.policy, state.recorded, reasons)

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        return explained_difference(plan)

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
        asked = needed_record(host, desired.state_dir)
        wait_for_plane(host, progress, asked)
        found = running_version(host, asked) or "nothing"
        progress.done(_API, f"Kubernetes {found} at {desired.endpoint}")
        findings = verify_restored(asked, host)
        findings += aggregation.findings(desired, host, progress) if desired.has_agent else []
        if found.partition("+")[0] != desired.kubernetes_version:
            error = MESSAGES.error("plane-version-differs", found_version=found, version=desired.kubernetes_version)
            findings.append(Finding(id=error.id, subject=desired.endpoint, text=error.text, remedy=error.remedy))
        return findings

    def report(self, desired: ControlPlane, host: Host) -> dict[str, object]:
        return {} if desired.state == ABSENT_STATE else report(host, needed_record(host, desired.state_dir))


def _all_stopped(plane: ControlPlane, wanted: list[Resource], values: Mapping[tuple[str, str], Value]) -> list[Step]:
    """The end of everything, where a program is to be added to what runs: its supervisor would see each one only after
    5 seconds (runsvdir), and starts all of them at once anew."""
    overseer = supervisor(plane.sv_dir, group=_SERVICES)
    is_new = [values[each.key] == ABSENT for each in wanted if os.path.dirname(each.target) == plane.sv_dir]
    if plane.state != PRESENT or not any(is_new) or values.get(overseer.key) != overseer.value:
        return []
    return [
        Step(
            kind=overseer.kind,
            title=overseer.title,
            target=overseer.target,
            after={"running": False},
            before=overseer.value,
            group=overseer.group,
        )
    ]


def _target(plane: ControlPlane, component: str) -> str:
    """Of a component's service."""
    return os.path.join(plane.sv_dir, joined(plane.name, component))


def _remove_bookkeeping(plane: ControlPlane, host: Host) -> None:
    """Remove the state directory when all that it holds is what runs leave: their progress, or a killed one's lock."""
    socket = f"{data_dir(plane)}.sock"  # of an etcd in the same process, which a killed one leaves
    if host.stat(socket):
        host.remove(socket)
    left = set(host.listdir(plane.state_dir))
    if left and left <= {"events.jsonl", "ledger.jsonl", "lock"}:
        with host.lock(plane.at("lock")):
            host.remove_tree(plane.state_dir)


def _directories(plane: ControlPlane) -> list[Resource]:
    nodes = [plane.pki("nodes", node.name) for node in plane.nodes]
    of_nodes = [plane.pki("nodes"), *nodes] if plane.has_pods else []
    data = [] if plane.existing_etcd else [data_dir(plane)]
    private = [plane.pki(), *of_nodes, plane.at("config"), *data]
    public = [*([flex_dir(plane)] if plane.has_pods else []), plane.log_dir, plane.sv_dir]
    return [
        *(directory(path, mode=0o700, group=_PKI) for path in private),
        *(directory(path, group=_PKI) for path in public),
    ]


def _kubelet_binding(plane: ControlPlane) -> Resource:
    """Lets the API server, under the name in its client certificate, use the kubelets' API (logs, exec), and no more.

    kube-proxy needs none: its user is bound to system:node-proxier by the API server itself.
    """
    rbac = "rbac.authorization.k8s.io"
    return api_object(
        plane.state_dir,
        f"/apis/{rbac}/v1/clusterrolebindings/ballast:{KUBELET_CLIENT_USER}",
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": KUBELET_CLIENT_USER}],
        },
        group=_API,
    )


def _makes(resource: Resource) -> list[str]:
    """The certificate and key files that a resource consists of."""
    if resource.kind == "certificate":
        path, _issuer = paths_of(resource)
        return [path, key_path(path)]
    if resource.kind == "key-pair":
        return [resource.target, public_path(resource.target)]
    return [resource.target] if resource.kind in ENCRYPTION_KINDS else []


def _rests_on(resource: Resource) -> list[str]:
    """The certificate and key files that a resource is made from, or runs with."""
    if resource.kind == "certificate":
        path, issuer = paths_of(resource)
        return [issuer] if issuer != path else []
    if resource.kind == "kubeconfig":
        return embedded_paths(resource)
    if resource.kind == "service":
        return credentials(Service.from_value(without_fault(resource.value)).argv)
    return []


ENGINE = PlaneEngine()
