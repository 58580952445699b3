# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that a lab is usable: every node runs a pod, every pod reaches every other, and every node reaches a Service.

connections.py has the requests between pods.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from .._control_plane.pki.identities import LAB_CHECK, LAB_NAMESPACE
from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.events import PROGRESS_LOG, Progress
from .._core.engine.kinds import BASE_KINDS, Kind
from .._core.engine.plan import Recorded, Resource
from .._core.engine.wait import Impossible, Pending, Ready, wait
from .._core.host.host import Host
from .._core.kube.client import Refused, is_temporary
from .._core.text.errors import BallastError, PeerError
from .._core.text.ip_families import split
from .addons.dns import DOMAIN, has_dns
from .addons.state import read_states_or_unknown, unknown_states, wait_for_addons
from .cluster import KUBECONFIG, Cluster, open_cluster
from .connections import PORT, PROGRAM, PROGRAM_PATH, Connections, Pod, Reached
from .manifests import manifest_kinds, manifest_resources
from .messages import MESSAGES
from .record import no_lab, require_lab_directory
from .summary import RUNNING, AddonState, NodeSummary, Summary, table
from .topology import KUBEADM

NAMESPACE = LAB_NAMESPACE
IMAGE = "ballast.local/busybox:1"
_NAME = "echo"
SERVICE_NAME = f"{_NAME}.{NAMESPACE}.svc.{DOMAIN}"
_NODES = "/api/v1/nodes"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
# Reasons of a waiting container that never go away.
_HOPELESS = ("ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError")

SPEC: dict[str, Any] = {
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
    "lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"},
    "kubectl": {"type": "path", "required": True},
    "lab": {"type": "dict", "required": True},
    "instances": {"type": "list", "elements": "dict", "required": True},
    "control_plane": {"type": "dict", "required": True},
    "ready_seconds": {"type": "float", "default": 120.0},
    "settle_seconds": {"type": "float", "default": 20.0},
    "output": {"type": "str", "default": "table", "choices": ["table", "json"]},
}


@dataclass(frozen=True)
class CheckRequest:
    state_dir: str
    lab_dir: str
    kubectl: str
    lab: Mapping[str, Any]
    instances: tuple[Mapping[str, Any], ...]
    control_plane: Mapping[str, Any]
    ready_seconds: float  # deadline for the pods
    settle_seconds: float  # deadline after that until every kube-proxy has the Service's rules
    output: str

    @property
    def by_kubeadm(self) -> bool:
        return bool(self.lab.get("bootstrap") == KUBEADM)

    @property
    def place(self) -> str:
        """The place of the cluster, see `open_cluster`."""
        return os.path.join(self.lab_dir, KUBECONFIG if self.by_kubeadm else "plane")

    @property
    def addons(self) -> list[str]:
        return list(self.lab.get("addons", ()))

    @property
    def node_names(self) -> list[str]:
        return sorted(node["name"] for node in self.lab["nodes"])

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> CheckRequest:
        return cls(
            state_dir=params["state_dir"].rstrip("/"),
            lab_dir=params["lab_dir"].rstrip("/"),
            kubectl=params["kubectl"],
            lab=params["lab"],
            instances=tuple(params["instances"]),
            control_plane=params["control_plane"],
            ready_seconds=params["ready_seconds"],
            settle_seconds=params["settle_seconds"],
            output=params["output"],
        )


def _pod_spec() -> dict[str, Any]:
    program = f"/tmp/www/{PROGRAM_PATH}"
    command = (
        f'mkdir -p {os.path.dirname(program)} && echo "$NODE_NAME" >/tmp/www/index.html && printf %s "$PROGRAM" >{program}'
        f" && chmod +x {program} && exec httpd -f -p {PORT} -h /tmp/www"
    )
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": _NAME,
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", command],
                "env": [
                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "PROGRAM", "value": PROGRAM.replace("$(", "$$(")},  # the kubelet expands $(NAME)
                ],
                "ports": [{"containerPort": PORT, "protocol": "TCP"}],
                # Not a readiness probe: the kubelet would repeat it forever, once a second on each of a hundred nodes.
                "startupProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1, "failureThreshold": 60},
            }
        ],
    }


_LABELS = {"app": _NAME}
_SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/{_NAME}"
MANIFESTS: dict[str, dict[str, Any]] = {
    f"/api/v1/namespaces/{NAMESPACE}": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{_NAME}": {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _NAME},
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod_spec()},
        },
    },
    _SERVICE: {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME},
        "spec": {"selector": _LABELS, "ports": [{"port": 80, "targetPort": PORT, "protocol": "TCP"}]},
    },
}


def manifests(lab: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects of the check in this lab."""
    if len(split(lab["pod_cidr"])) == 1:
        return MANIFESTS
    service = copy.deepcopy(MANIFESTS[_SERVICE])
    service["spec"]["ipFamilyPolicy"] = "RequireDualStack"
    return {**MANIFESTS, _SERVICE: service}


class CheckEngine(ResourceEngine[CheckRequest]):
    name = "check"
    kinds: Mapping[str, Kind] = {**manifest_kinds(LAB_CHECK), "symlink": BASE_KINDS["symlink"]}

    def __init__(self) -> None:
        self._reached: dict[str, Reached] = {}
        self._pods: Sequence[Pod] = ()
        self._nodes: dict[str, Mapping[str, Any]] = {}  # of a kubeadm lab, which no module of this collection reads
        self._addons: tuple[AddonState, ...] = ()
        self._policies = 0

    def read_recorded(self, ctx: Context[CheckRequest]) -> tuple[Recorded, ...]:
        require_lab_directory(ctx.host, ctx.desired.lab_dir)  # the summary and the link are written there
        return super().read_recorded(ctx)

    def wanted(self, ctx: Context[CheckRequest]) -> list[Resource]:
        desired = ctx.desired
        programs = os.path.join(desired.lab_dir, "bin")
        return [
            Resource(
                kind="symlink",
                target=programs,
                value={"to": os.path.dirname(desired.kubectl)},
                title=f"link {programs}",
                group="check",
            ),
            *manifest_resources(desired.place, manifests(desired.lab), group="check"),
        ]

    def groups_verified(self, desired: CheckRequest) -> tuple[str, ...]:
        return ("check",)

    def verify(self, ctx: Context[CheckRequest]) -> list[Finding]:
        desired, host, progress = ctx.desired, ctx.host, ctx.progress
        cluster = open_cluster(host, desired.place, LAB_CHECK)
        if cluster is None:
            raise no_lab(host, desired.lab_dir)
        try:
            self.measure(ctx, cluster)
        except BallastError as error:
            progress.failed("check", error.text)
            return [_make_finding(cluster, error)]
        summary = self._summarize(desired)
        progress.done("check", f"{summary.passed} of {summary.total} connections")
        return []

    def measure(self, ctx: Context[CheckRequest], cluster: Cluster) -> None:
        """Wait until everything works, for `summary`. An error leaves what was measured until then."""
        try:
            if ctx.desired.by_kubeadm:
                _wait_for_nodes(ctx.desired, cluster, ctx.host, ctx.progress)
            self._pods = _wait_for_pods(ctx.desired, cluster, ctx.host, ctx.progress)
            self._measure_connections(ctx, cluster)
            wait_for_addons(
                ctx.host, ctx.desired.place, ctx.desired.addons, ctx.progress, seconds=ctx.desired.ready_seconds
            )
        finally:
            self._addons = read_states_or_unknown(ctx.host, ctx.desired.place, ctx.desired.addons)
            self._policies = _count_policies(cluster, ctx.host)
            if ctx.desired.by_kubeadm:
                self._nodes = _read_nodes(cluster, ctx.host)

    def _measure_connections(self, ctx: Context[CheckRequest], cluster: Cluster) -> None:
        names = (SERVICE_NAME,) if has_dns(ctx.desired.lab) else ()
        connections = Connections(self._pods, _read_service(cluster, ctx.host), names)
        try:
            _wait_for_connections(ctx.desired, cluster, connections, ctx.host, ctx.progress)
        finally:
            self._pods, self._reached = connections.pods, connections.reached

    def summary(self, desired: CheckRequest) -> dict[str, Any]:
        """The last measurement, as values and as text for people."""
        summary = self._summarize(desired)
        text = json.dumps(summary.as_json(), indent=2) + "\n"
        shown = text if desired.output == "json" else table(summary, desired.lab)
        return {"summary": summary.as_json(), "ballast_summary": shown}

    def _summarize(self, desired: CheckRequest) -> Summary:
        addons = self._addons or unknown_states(desired.addons)
        summary = _summary(desired, self._pods, self._reached, self._nodes, addons)
        return replace(summary, network_policies=self._policies)

    def report(self, ctx: Context[CheckRequest]) -> dict[str, object]:
        report = self.summary(ctx.desired)
        text = json.dumps(report["summary"], indent=2) + "\n"
        ctx.host.write(os.path.join(ctx.desired.lab_dir, "summary.json"), text.encode())
        return report


def read_status(ctx: Context[CheckRequest]) -> dict[str, Any]:
    """What `lab_check_info` returns: the check without changes, with failures as values."""
    engine = CheckEngine()
    cluster = open_cluster(ctx.host, ctx.desired.place, LAB_CHECK)
    if cluster is not None:
        with contextlib.suppress(PeerError):
            engine.measure(ctx, cluster)
    return engine.summary(ctx.desired)


def _count_policies(cluster: Cluster, host: Host) -> int:
    """NetworkPolicies of all namespaces; 0 where they cannot be listed."""
    with contextlib.suppress(PeerError):
        return len(cluster.reader(host, _POLICIES).list(_POLICIES).items)
    return 0


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a Node object has the condition Ready with status True. False for an object without status."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any((row.get("type"), row.get("status")) == ("Ready", "True") for row in conditions)


def _read_nodes(cluster: Cluster, host: Host) -> dict[str, Mapping[str, Any]]:
    return {node["metadata"]["name"]: node for node in cluster.reader(host, _NODES).list(_NODES).items}


def _wait_for_nodes(desired: CheckRequest, cluster: Cluster, host: Host, progress: Progress) -> None:
    """Wait until nodes are Ready: with kubeadm a node joins before that. The check's pods tolerate it; other pods do not."""

    def probe() -> Union[Ready[None], Pending]:
        try:
            nodes = _read_nodes(cluster, host)
        except PeerError as error:
            if not is_temporary(error):
                raise
            return Pending(error.found or error.text)
        missing = [name for name in desired.node_names if not is_ready(nodes.get(name, {}))]
        if not missing:
            return Ready(None)
        return Pending(
            f"{len(desired.node_names) - len(missing)} of {len(desired.node_names)} nodes ready, not {missing[0]}"
        )

    wait(host, progress, "check", probe, deadline_seconds=desired.ready_seconds)


def _wait_for_pods(desired: CheckRequest, cluster: Cluster, host: Host, progress: Progress) -> list[Pod]:
    """Wait for one ready pod on every node."""

    def probe() -> Union[Ready[list[Pod]], Pending, Impossible]:
        return _judge_pods_now(desired, cluster, host)

    return wait(host, progress, "check", probe, deadline_seconds=desired.ready_seconds)


def _judge_pods_now(
    desired: CheckRequest, cluster: Cluster, host: Host
) -> Union[Ready[list[Pod]], Pending, Impossible]:
    try:
        items = cluster.reader(host, _PODS).get(_PODS, {"labelSelector": f"app={_NAME}"}).get("items", [])
    except PeerError as error:  # the API server may be gone for a moment, until another member takes over
        if not is_temporary(error) and not isinstance(error, Refused):
            raise
        return Pending(error.text + (f" ({error.found})" if error.found else ""))
    return judge_pods(items, desired.node_names, families=len(split(desired.lab["pod_cidr"])))


def judge_pods(
    items: Sequence[Mapping[str, Any]], nodes: Sequence[str], *, families: int = 1
) -> Union[Ready[list[Pod]], Pending, Impossible]:
    """Whether `items`, pods as the API lists them, are ready on all of `nodes`. Pods being deleted do not count."""
    ready: dict[str, Pod] = {}
    reasons: dict[str, str] = {}
    for item in items:
        status = item.get("status", {})
        node = item.get("spec", {}).get("nodeName", "")
        if item["metadata"].get("deletionTimestamp") or node not in nodes:
            continue
        states = [row.get("state", {}).get("waiting", {}) for row in status.get("containerStatuses", [])]
        for state in states:
            if state.get("reason") in _HOPELESS:
                return Impossible(f"pod on {node}: {state['reason']}: {state.get('message', '')}")
        conditions = {row["type"]: row["status"] for row in status.get("conditions", [])}
        addresses = tuple(row["ip"] for row in status.get("podIPs") or ())
        if conditions.get("Ready") == "True" and len(addresses) >= families:
            ready[node] = Pod(name=item["metadata"]["name"], node=node, addresses=addresses)
        else:
            reasons[node] = next((state["reason"] for state in states if state.get("reason")), "starting")
    missing = [node for node in nodes if node not in ready]
    if not missing:
        return Ready([ready[node] for node in nodes])
    first = missing[0]
    return Pending(f"pods ready on {len(ready)} of {len(nodes)} nodes; {first}: {reasons.get(first, 'no pod yet')}")


def _read_service(cluster: Cluster, host: Host) -> list[str]:
    """The addresses of the check's Service, of each IP family of the lab."""
    path = f"/api/v1/namespaces/{NAMESPACE}/services/{_NAME}"
    try:
        return [str(address) for address in cluster.reader(host, path).get(path)["spec"]["clusterIPs"]]
    except Refused as error:
        reason = f"{error.status} for the Service {_NAME}"
        raise MESSAGES.error("lab-pods", kubeconfig=cluster.kubeconfig, found=reason) from error


def _wait_for_connections(
    desired: CheckRequest, cluster: Cluster, connections: Connections, host: Host, progress: Progress
) -> None:
    """Wait until each pod reaches everything: the rules of a Service follow its endpoints a little later."""

    def probe() -> Union[Ready[None], Pending]:
        pods = _judge_pods_now(desired, cluster, host)
        if isinstance(pods, Ready):
            connections.replace_pods(pods.value)
        connections.ask(cluster.reader(host, _PODS), _PODS)
        left = [pod.node for pod in connections.unfinished]
        if not left:
            return Ready(None)
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        return Pending(connections.failure or f"connections from {', '.join(left[:5])}{more} fail")

    # CoreDNS starts together with the nodes, as do the check's pods.
    deadline = desired.ready_seconds if has_dns(desired.lab) else desired.settle_seconds
    try:
        wait(host, progress, "check", probe, deadline_seconds=deadline, interval=0.5)
    except PeerError as error:
        raise _connection_error(desired, cluster, connections, error) from error


def _connection_error(
    desired: CheckRequest, cluster: Cluster, connections: Connections, error: PeerError
) -> BallastError:
    """Failed connections come first: if all succeed, only the name does not resolve."""
    total = len(connections.pods) ** 2
    passed = sum(reached.pods + reached.service for reached in connections.reached.values())
    left = connections.unfinished[0].node
    if passed == total:
        return MESSAGES.error("lab-names", kubeconfig=cluster.kubeconfig, node=left, found=error.found)
    node = next(node for node in desired.lab["nodes"] if node["name"] == left)
    netns = node.get("netns", left).rpartition("/")[2]
    return MESSAGES.error("lab-connectivity", failed=total - passed, total=total, netns=netns, found=error.found)


def _make_finding(cluster: Cluster, error: BallastError) -> Finding:
    own = MESSAGES.error("lab-pods", kubeconfig=cluster.kubeconfig)
    known = error if error.id in MESSAGES.rows else own
    text = error.text + (f" ({error.found})" if error.found else "")
    return Finding(id=known.id, subject="check", text=text, remedy=known.remedy)


def _summary(
    desired: CheckRequest,
    pods: Sequence[Pod],
    reached: Mapping[str, Reached],
    kubeadm: Mapping[str, Mapping[str, Any]],
    addons: tuple[AddonState, ...],
) -> Summary:
    addresses = {pod.node: pod.addresses[0] for pod in pods}
    readings = {reading["name"]: reading for reading in desired.instances}
    nodes = []
    for node in desired.lab["nodes"]:
        reading = readings.get(node["name"], {})
        own = kubeadm.get(node["name"], {})
        connections = reached.get(node["name"], Reached(pods=0, service=False))
        nodes.append(
            NodeSummary(
                name=node["name"],
                host=node["host"],
                ready=bool(reading.get("ready")) or is_ready(own),
                cordoned=bool(reading.get("cordoned") or own.get("spec", {}).get("unschedulable")),
                ready_seconds=reading.get("ready_seconds"),
                pss_bytes=int(reading.get("pss_bytes") or 0),
                pod_ip=addresses.get(node["name"], ""),
                pods_reached=connections.pods,
                service_reached=connections.service,
                name_resolved=(connections.name or False) if has_dns(desired.lab) else None,
                proxy_backend=str(reading.get("proxy_backend") or node["proxy_backend"]),
                proxy_reason=str(reading.get("proxy_reason") or ""),
            )
        )
    state = desired.control_plane.get("state", RUNNING)
    return Summary(
        name=desired.lab["name"],
        kubernetes_version=desired.lab["kubernetes_version"],
        plane_state=state,
        # Recorded when the control plane started, so it says nothing about one that does not run.
        plane_ready_seconds=desired.control_plane.get("ready_seconds") if state == RUNNING else None,
        plane_rss_bytes=int(desired.control_plane.get("rss_bytes") or 0),
        plane_members=tuple(desired.control_plane.get("members", ())),
        nodes=tuple(nodes),
        addons=addons,
    )


ENGINE = CheckEngine()
