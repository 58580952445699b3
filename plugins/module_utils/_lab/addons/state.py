# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the add-ons of a lab run: the state of their Deployments and DaemonSets in the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Optional, Union

from ..._control_plane.pki.identities import LAB_ADDONS
from ..._core.engine.events import Progress
from ..._core.engine.wait import Pending, Ready, wait
from ..._core.host.host import Host
from ..._core.text.errors import PeerError
from ..cluster import Cluster, open_cluster
from ..messages import MESSAGES
from ..summary import READY, AddonState
from .catalog import ADDONS


def read_states_or_unknown(host: Host, place: str, names: Sequence[str]) -> tuple[AddonState, ...]:
    """States for a summary, which is also made of a lab that fails."""
    cluster = open_cluster(host, place, LAB_ADDONS)
    with suppress(PeerError):
        if cluster is not None:
            return read_states(host, cluster, names)
    return unknown_states(names)


def unknown_states(names: Sequence[str]) -> tuple[AddonState, ...]:
    """States of add-ons that were not read."""
    return tuple(AddonState(name, "unknown") for name in names)


def read_states(host: Host, cluster: Cluster, names: Sequence[str]) -> tuple[AddonState, ...]:
    """READY, or what the add-on waits for, in the order of `names`. PeerError when the API server cannot be asked."""
    return tuple(AddonState(name, _find_late(host, cluster, name)[1]) for name in names)


def wait_for_addons(host: Host, place: str, names: Sequence[str], progress: Progress, *, seconds: float) -> None:
    """Wait until all are ready. PeerError `lab-addon` names the first that is late."""
    cluster = open_cluster(host, place, LAB_ADDONS)
    if cluster is None or not names:
        return
    late: list[tuple[str, str, str]] = []  # name, path of a workload, its state

    def probe() -> Union[Ready[None], Pending]:
        states = [(name, *_find_late(host, cluster, name)) for name in names]
        late[:] = [row for row in states if row[2] != READY]
        return (
            Pending(f"add-on {', '.join(f'{name}: {state}' for name, _path, state in late)}") if late else Ready(None)
        )

    try:
        wait(host, progress, "check", probe, deadline_seconds=seconds, interval=0.2)
    except PeerError as error:
        if not late:
            raise
        name, path, state = late[0]
        workload = "/".join(path.split("/")[-2:])
        raise MESSAGES.error(
            "lab-addon", name=name, workload=workload, kubeconfig=cluster.kubeconfig, found=state
        ) from error


def judge(workload: Optional[Mapping[str, Any]]) -> str:
    """READY, or what is missing. One pod makes a Deployment ready: the others are for when a node is drained."""
    if workload is None:
        return "absent"
    status = workload.get("status", {})
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return "starting"
    if workload["kind"] == "Deployment":
        return READY if status.get("availableReplicas", 0) and status.get("updatedReplicas", 0) else "no pod is ready"
    needed, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    return READY if needed and ready >= needed else f"pods ready on {ready} of {needed} nodes"


def _find_late(host: Host, cluster: Cluster, name: str) -> tuple[str, str]:
    """Path and state of the first workload that is not ready; ("", READY) when all are."""
    state = ("", READY)
    for path in ADDONS[name].workloads:
        state = (path, judge(cluster.reader(host, path).find(path)))
        if state[1] != READY:
            break
    return state
