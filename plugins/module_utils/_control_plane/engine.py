# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Control planes of every profile and deployment mode: their processes run as supervised services."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from .._core.engine.context import Context
from .._core.engine.engine import Finding, JournalEngine
from .._core.engine.kinds import BASE_KINDS, directory, fields, file
from .._core.engine.ownership import discard, list_content, refuse_others
from .._core.engine.plan import ABSENT, Recorded, Resource, State, Step, Value
from .._core.host.host import Host
from .._core.host.names import join_name
from .._core.service.cgroup import CGROUP_KINDS, Limits, cgroup
from .._core.service.runit import SupervisorKind
from .._core.service.service import Service, supervisor
from .._core.text.errors import BallastError, Problems
from .._registry.names import refuse_others_directory
from .aggregation import deployment as aggregation
from .aggregation.objects import API_SERVICE_KINDS
from .annotated_plan import AnnotatedPlan, annotate_diff
from .api import API_KINDS, api_object
from .messages import MESSAGES
from .operations.renewal import mark_for_renewal
from .operations.replaced_data import without_replaced_data
from .operations.restore_check import verify_restore
from .operations.upgrade import find_data_problems
from .option_changes import merge_with_existing
from .pki.certificates import ADMIN, CA, KUBELET_CLIENT_USER, authorities, certificates, node_certificates
from .pki.encryption import ENCRYPTION_KINDS, encryption_resources
from .pki.identities import RBAC, admin_binding, bind, service_proxy_rights
from .pki.kubeconfig import KUBECONFIG_KINDS, embedded_paths, standalone_kubeconfig
from .pki.pki import PKI_KINDS, key_pair, key_path, paths_of, public_path
from .preflight import check_parts, find_conflicts
from .processes.components import command_flags, config_files, credentials, plan_processes, record, services
from .processes.controllers import flex_dir
from .processes.etcd import data_dir
from .processes.tls_service import TlsServiceKind, tls_service, without_fault
from .ready import wait_for_control_plane, wait_for_end, wait_for_other_members
from .record import record_path, require_record
from .report import read_version, report
from .request import ABSENT_STATE, PRESENT, STOPPED, ControlPlaneRequest

_PKI, _SERVICES, _API = "control plane certificates", "control plane services", "control plane"
_IN_THE_API = (*API_KINDS, *API_SERVICE_KINDS)


@dataclass(frozen=True)
class ControlPlaneState(State):
    """`problems` are the reasons why the request cannot be carried out."""

    problems: tuple[BallastError, ...]


class ControlPlaneEngine(JournalEngine[ControlPlaneRequest, ControlPlaneState, AnnotatedPlan]):
    name = "plane"
    kinds = {
        **BASE_KINDS,
        **CGROUP_KINDS,
        **PKI_KINDS,
        **KUBECONFIG_KINDS,
        **API_KINDS,
        **ENCRYPTION_KINDS,
        **aggregation.KINDS,
        "service": TlsServiceKind(),
        "supervisor": SupervisorKind(),
    }

    def read_recorded(self, ctx: Context[ControlPlaneRequest]) -> tuple[Recorded, ...]:
        refuse_others_directory(ctx.host, ctx.desired.state_dir, name=ctx.desired.name)
        return super().read_recorded(ctx)

    def observe(self, ctx: Context[ControlPlaneRequest]) -> ControlPlaneState:
        desired, resources, recorded = ctx.desired, wanted_resources(ctx.desired), self.read_recorded(ctx)
        values = self.values(ctx, recorded, resources)
        problems = find_data_problems(desired, ctx.host)
        if desired.state == PRESENT and not problems:
            changing = [each.target for each in resources if each.kind == "service" and values[each.key] != each.value]
            starting = [
                component
                for component in desired.composition.processes
                if any(_target(desired, member.in_member(component)) in changing for member in desired.each_member)
            ]
            problems = find_conflicts(desired, ctx.host, starting=starting, recorded=recorded)
        return ControlPlaneState(recorded, values, tuple(resources), tuple(problems))

    def plan(self, desired: ControlPlaneRequest, state: ControlPlaneState) -> AnnotatedPlan:
        """The plan. What uses a certificate that changes is made again too.

        Raises the problems that `observe` found, and UserError for a change that the data does not allow.
        """
        refuse_others(state.wanted, {record.key for record in state.recorded}, state.values, self.kinds)
        Problems.raise_if(state.problems)
        desired = merge_with_existing(desired, state)
        resources, values = wanted_resources(desired), dict(state.values)
        if desired.state == ABSENT_STATE:
            # Objects are removed with etcd's data: when their turn comes, the API server has stopped.
            values.update({old.key: ABSENT for old in state.recorded if old.kind in _IN_THE_API})
        if desired.renew_certificates:
            values.update(mark_for_renewal(resources, values))
        changing: set[str] = set()
        for resource in resources:
            if resource.kind in _IN_THE_API and desired.state == STOPPED:
                values[resource.key] = resource.value  # kept in etcd; unreadable while the API server is stopped
            value = values[resource.key]
            if value == resource.value and changing.intersection(_files_used_by(resource)):
                values[resource.key] = {**fields(value), "fault": "what it was made from changes"}
            if values[resource.key] != resource.value:
                changing.update(_files_of(resource))
        if desired.state == ABSENT_STATE:
            plan = self.plan_steps(resources, replace(state, values=values))
            return AnnotatedPlan(plan.steps, plan.policy, plan.based_on)
        first = _stop_before_adding(desired, resources, values)
        values.update({step.key: ABSENT for step in first})
        plan = self.plan_steps(resources, replace(state, recorded=without_replaced_data(state.recorded), values=values))
        reasons = {_target(desired, name): flags for name, flags in command_flags(desired).items()}
        # Objects are removed from the API first, while the API server still answers.
        in_the_api = [step for step in plan.steps if step.kind in _IN_THE_API and step.after == ABSENT]
        rest = [step for step in plan.steps if step not in in_the_api]
        return AnnotatedPlan(
            (*in_the_api, *first, *_start_before_restarting(desired, rest)), plan.policy, state.recorded, reasons
        )

    def diff(self, plan: AnnotatedPlan) -> list[dict[str, str]]:
        return annotate_diff(plan)

    def apply(self, plan: AnnotatedPlan, ctx: Context[ControlPlaneRequest]) -> AnnotatedPlan:
        if ctx.desired.state == PRESENT and plan.steps:
            check_parts(ctx.desired, ctx.host)
        done = super().apply(plan, ctx)
        if ctx.desired.state == ABSENT_STATE:
            _remove_bookkeeping(ctx.desired, ctx.host)
        return done

    def change(self, step: Step, ctx: Context[Any], *, after: Value, before: Value) -> None:
        """Several members are restarted one after the other, so that the API goes on."""
        if step.kind == "service" and _runs(before) and _runs(after) and ctx.desired.is_balanced:
            record = require_record(ctx.host, ctx.desired.state_dir)
            wait_for_other_members(ctx.host, ctx.progress, record, step.target)
        super().change(step, ctx, after=after, before=before)

    def groups_verified(self, desired: ControlPlaneRequest) -> tuple[str, ...]:
        return (_API,) if desired.state == PRESENT else ()

    def verify(self, ctx: Context[ControlPlaneRequest]) -> list[Finding]:
        desired, host, progress = ctx.desired, ctx.host, ctx.progress
        if desired.state == ABSENT_STATE:
            return []
        if desired.state == STOPPED:
            wait_for_end(host, progress, desired.cgroup, log_dir=desired.log_dir)
            return []
        record = require_record(host, desired.state_dir)
        wait_for_control_plane(host, progress, record)
        version = read_version(host, record) or "nothing"
        progress.done(_API, f"Kubernetes {version} at {desired.endpoint}")
        findings = verify_restore(record, host)
        findings += aggregation.verify_agent(desired, host, progress) if desired.has_agent else []
        if version.partition("+")[0] != desired.kubernetes_version:
            error = MESSAGES.error("plane-version-differs", found_version=version, version=desired.kubernetes_version)
            findings.append(Finding(id=error.id, subject=desired.endpoint, text=error.text, remedy=error.remedy))
        return findings

    def report(self, ctx: Context[ControlPlaneRequest]) -> dict[str, object]:
        return (
            {}
            if ctx.desired.state == ABSENT_STATE
            else report(ctx.host, require_record(ctx.host, ctx.desired.state_dir))
        )


def wanted_resources(desired: ControlPlaneRequest) -> list[Resource]:
    """All resources of the request, in the order in which they are made."""
    if desired.state == ABSENT_STATE:
        return []
    running = desired.state == PRESENT
    return [
        *_directories(desired),
        *(certificate.resource(group=_PKI) for certificate in authorities(desired)),
        *(certificate.resource(group=_PKI) for certificate in certificates(desired)),
        key_pair(desired.pki("sa.key"), group=_PKI),
        *(certificate.resource(group=_PKI) for certificate in node_certificates(desired)),
        standalone_kubeconfig(
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
        # After the directories, so that a removal ends the processes before it removes the directories they write to.
        cgroup(desired.cgroup, Limits(), group=_SERVICES),
        *(tls_service(desired.sv_dir, process, running=running, group=_SERVICES) for process in services(desired)),
        *(aggregation.resources(desired, running=running, group=_SERVICES) if desired.has_agent else []),
        *([supervisor(desired.sv_dir, group=_SERVICES)] if running else []),
        _admin_binding(desired),
        *([_kubelet_binding(desired)] if desired.has_pods else []),
        *_service_proxy_rights(desired),
        *(aggregation.api_resources(desired, group=_API) if desired.has_agent else []),
    ]


def _stop_before_adding(
    request: ControlPlaneRequest, resources: list[Resource], values: Mapping[tuple[str, str], Value]
) -> list[Step]:
    """Stops the supervisor when a running control plane gets another program: runsvdir sees a new service only after
    5 seconds, but starts all services at once when it starts itself."""
    overseer = supervisor(request.sv_dir, group=_SERVICES)
    is_new = [values[each.key] == ABSENT for each in resources if os.path.dirname(each.target) == request.sv_dir]
    if request.state != PRESENT or not any(is_new) or values.get(overseer.key) != overseer.value:
        return []
    after: Value = {"running": False}
    return [Step(overseer.kind, overseer.title, overseer.target, after, before=overseer.value, group=overseer.group)]


def _start_before_restarting(request: ControlPlaneRequest, steps: Sequence[Step]) -> Iterator[Step]:
    """Reorder the steps of each component: members that are down come first, as the others wait for them before a restart."""
    components = {_target(request, process.name): process.component for process in plan_processes(request)}
    for component, group in groupby(steps, lambda step: components.get(step.target)):
        same = list(group)
        yield from same if component is None else sorted(same, key=lambda step: _runs(step.before))


def _runs(value: Value) -> bool:
    """Whether a service with this value runs."""
    return value != ABSENT and fields(value).get("running") is True


def _target(request: ControlPlaneRequest, process: str) -> str:
    """The target of the service that runs `process`."""
    return os.path.join(request.sv_dir, join_name(request.name, process))


def _remove_bookkeeping(request: ControlPlaneRequest, host: Host) -> None:
    """Remove the state directory when it holds only the bookkeeping of runs: progress, journal, lock."""
    socket = f"{data_dir(request)}.sock"  # where earlier versions of this collection put the socket of an embedded etcd
    if host.stat(socket):
        host.remove(socket)
    left = set(list_content(host, request.state_dir))
    if left and left <= {"events.jsonl", "ledger.jsonl", "lock"}:
        with host.lock(request.at("lock")):
            discard(host, request.state_dir, owner=ControlPlaneEngine.name)


def _directories(request: ControlPlaneRequest) -> list[Resource]:
    nodes = [request.pki("nodes", node.name) for node in request.nodes]
    of_nodes = [request.pki("nodes"), *nodes] if request.has_pods else []
    data = [] if request.existing_etcd else [data_dir(member) for member in request.each_member]
    private = [request.pki(), *of_nodes, request.at("config"), *data]
    public = [*([flex_dir(request)] if request.has_pods else []), request.sv_dir]
    return [
        *(directory(path, mode=0o700, group=_PKI) for path in private),
        directory(request.log_dir, mode=0o750, group=_PKI),
        *(directory(path, group=_PKI) for path in public),
    ]


def _admin_binding(request: ControlPlaneRequest) -> Resource:
    path, binding = admin_binding()
    return api_object(request.state_dir, path, binding, group=_API)


def _kubelet_binding(request: ControlPlaneRequest) -> Resource:
    """Lets the API server's client certificate use the kubelets' API (logs, exec) only.

    kube-proxy needs no binding: the API server binds its user to system:node-proxier.
    """
    path = f"/apis/{RBAC}/v1/clusterrolebindings/ballast:{KUBELET_CLIENT_USER}"
    binding = bind("ClusterRole", "system:kubelet-api-admin", KUBELET_CLIENT_USER)
    return api_object(request.state_dir, path, binding, group=_API)


def _service_proxy_rights(request: ControlPlaneRequest) -> list[Resource]:
    """Objects for the service proxy; empty when no node has ballast-service-proxy."""
    if not any(node.service_proxy for node in request.nodes):
        return []
    return [api_object(request.state_dir, path, value, group=_API) for path, value in service_proxy_rights().items()]


def _files_of(resource: Resource) -> list[str]:
    """The certificate and key files that make up a resource."""
    if resource.kind == "certificate":
        path, _issuer = paths_of(resource)
        return [path, key_path(path)]
    if resource.kind == "key-pair":
        return [resource.target, public_path(resource.target)]
    return [resource.target] if resource.kind in ENCRYPTION_KINDS else []


def _files_used_by(resource: Resource) -> list[str]:
    """The certificate and key files from which a resource is made, or with which it runs."""
    if resource.kind == "certificate":
        path, issuer = paths_of(resource)
        return [issuer] if issuer != path else []
    if resource.kind == "kubeconfig":
        return embedded_paths(resource)
    if resource.kind == "service":
        return credentials(Service.from_value(without_fault(resource.value)).argv)
    return []


ENGINE = ControlPlaneEngine()
