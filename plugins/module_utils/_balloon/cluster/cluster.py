# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API of the cluster for the sizing of nodes: its fleet, kept up to date, and the writes.

    with Cluster(api, host, namespace="kube-system") as cluster:    # lists; PeerError where that cannot be
        cluster.fleet()                                             # as of now, without a call
        cluster.resize(action)                                      # one call
        cluster.wait(5)                                             # until something changes

A resize takes one PATCH of pods/resize and one of the Node; lists and watches are shared by all nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Optional

from ..._core.host.host import Host
from ..._core.kube.client import STRATEGIC_MERGE_PATCH, Api, Refused, is_temporary
from ..._core.text.errors import BallastError
from ..resize.scheduler import Resize
from ..sizing.resources import Resources
from ..sizing.sizing import with_reserves
from .facts import CONTAINER, SIZES, TAINT, Fleet, Names, Node
from .informer import NODES, PODS, FleetInformer, ObjectVersion
from .messages import MESSAGES
from .reading import Machine, Observation

_CONFLICTS = 5  # of one Node: kubelet and others write it too, and leave gaps between their writes
# Words to search for in a refusal, in this order. Sources: the API server's admission plugins resourcequota, limitranger,
# webhook and policy/validating, and its authorization.
_WORDS = (
    ("admission webhook", "balloon-refused-webhook"),
    ("AdmissionPolicy", "balloon-refused-webhook"),
    ("exceeded quota", "balloon-refused-quota"),
    ("failed quota", "balloon-refused-quota"),
    (" usage per ", "balloon-refused-limit-range"),
    (" to request ratio per ", "balloon-refused-limit-range"),
    (" cannot patch resource ", "balloon-refused-access"),
)
_STATUSES = {401: "balloon-refused-access", 404: "balloon-refused-unserved", 422: "balloon-refused-invalid"}


class Cluster:
    """`reserve` is that of each host, None for the sum of what its kubelets reserve. Safe for threads."""

    def __init__(
        self,
        api: Api,
        host: Host,
        *,
        namespace: str,
        names: Names = SIZES,
        reserve: Optional[Resources] = None,
        machine: Optional[Machine] = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._names = names
        self._reserve = reserve
        self._informer = FleetInformer(api, host, namespace=namespace, names=names, machine=machine)

    def load(self) -> None:
        """List everything: for a single read, or to be up to date although a watch is late."""
        self._informer.load()

    def __enter__(self) -> Cluster:
        self._informer.load()
        self._informer.start()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._informer.end()

    def observe(self) -> Observation:
        """The fleet, and the problems of nodes and pods that others have written."""
        observation = self._informer.observe()
        return Observation(with_reserves(observation.fleet, self._reserve), observation.problems)

    def fleet(self) -> Fleet:
        """The fleet without limits, which the API does not know."""
        return self.observe().fleet

    @property
    def calls(self) -> Mapping[str, int]:
        """Number of calls by kind, such as {"PATCH pods/resize": 3}."""
        return self._informer.calls

    @property
    def lost(self) -> Optional[tuple[float, BallastError]]:
        """Seconds since the watch of the API server was lost, and why; None while it works."""
        return self._informer.lost

    def wait(self, seconds: float) -> bool:
        """Wait for a change since the last wait, or for `ring`. False when neither came in time."""
        rung = self._informer.bell.wait(seconds)
        self._informer.bell.clear()
        return rung

    def ring(self) -> None:
        """End the wait of another thread."""
        self._informer.bell.set()

    def resize(self, action: Resize) -> None:
        """Send one PATCH, which has no effect on a pod that changed since the decision.

        Raises `balloon-changed` when it did change; the pod has then been read again. `balloon-refused-...` when the server refuses.
        Any other PeerError (see `is_temporary`) leaves open whether the server resized the pod.
        """
        key = (action.namespace, action.pod)
        seen = self._informer.version_of(PODS, key)
        if seen is None or seen.version != action.resource_version:
            raise _changed_error(action)
        try:
            answer = self._patch_resize(action, seen)
        except Refused as error:
            if is_temporary(error):
                raise
            there = error.status not in (404, 409) or self._read_again(action, seen)
            if error.status == 409 or not there:
                raise _changed_error(action) from error
            raise refusal(action, error) from error
        self._informer.put_answer(PODS, answer)

    def annotate(self, name: str, target: Optional[Resources]) -> None:
        """The node's balloon leaves `target`: write that to its Node, and remove the startup taint. None removes the annotation. Makes
        no call when nothing changes."""
        self._write_node(name, lambda node: target)

    def untaint(self, name: str) -> None:
        """The node's balloon leaves its target: remove the startup taint, and keep the annotation."""
        self._write_node(name, lambda node: node.target)

    def _write_node(self, name: str, target_of: Callable[[Node], Optional[Resources]]) -> None:
        for attempt in range(_CONFLICTS):
            # In this order: if the node is newer than the version, the patch conflicts, and the Node is read again.
            seen = self._informer.version_of(NODES, ("", name))
            if seen is not None and not self._names.size_nodes:
                seen = seen._replace(taints=())  # the startup taint belongs to the balloons that size nodes
            node = self._informer.observe().fleet.nodes.get(name)
            if node is None or seen is None or (node.target == target_of(node) and not seen.taints):
                return
            try:
                self._informer.count("PATCH nodes")
                body = _node_patch(seen, self._names.target, target_of(node))
                self._informer.put_answer(NODES, self._api.patch(f"/api/v1/nodes/{name}", body))
                return
            except Refused as error:
                if error.status == 404:
                    return
                if error.status != 409 or attempt == _CONFLICTS - 1:
                    raise
            self._informer.count("GET nodes")
            self._informer.put_answer(NODES, self._api.get(f"/api/v1/nodes/{name}"))

    def _patch_resize(self, action: Resize, seen: ObjectVersion) -> dict[str, Any]:
        size = action.size.as_quantities()
        # The memory limit equals the request: so the container has no swap, and can be resized (KEP-1287).
        resources = {"requests": size, "limits": {"memory": size["memory"]}}
        self._informer.count("PATCH pods/resize")
        return self._api.patch(
            f"{_pod_path(action)}/resize",
            {
                "metadata": {"uid": seen.uid, "resourceVersion": seen.version},
                "spec": {"containers": [{"name": CONTAINER, "resources": resources}]},
            },
            content_type=STRATEGIC_MERGE_PATCH,
        )

    def _read_again(self, action: Resize, seen: ObjectVersion) -> bool:
        """Read the pod after a conflict. Whether it still exists."""
        self._informer.count("GET pods")
        pod = self._api.find(_pod_path(action))
        if pod is None:
            self._informer.remove(PODS, (action.namespace, action.pod), seen.uid)
            return False
        self._informer.put_answer(PODS, pod)
        return True


def refusal(action: Resize, error: Refused) -> BallastError:
    """The error for a refused resize, by the status and words of the answer."""
    by_words = (id for words, id in _WORDS if words in error.found)
    id = next(by_words, None) or _STATUSES.get(error.status, "balloon-refused-otherwise")
    return MESSAGES.error(id, node=action.node, namespace=action.namespace, size=action.size, found=error.found)


def _changed_error(action: Resize) -> BallastError:
    return MESSAGES.error("balloon-changed", node=action.node)


def _pod_path(action: Resize) -> str:
    return f"/api/v1/namespaces/{action.namespace}/pods/{action.pod}"


def _node_patch(seen: ObjectVersion, annotation: str, target: Optional[Resources]) -> dict[str, Any]:
    """The patch replaces the list of taints, which others write too; so it carries the resourceVersion."""
    written = None if target is None else json.dumps(target.as_quantities(), sort_keys=True)
    patch: dict[str, Any] = {"metadata": {"uid": seen.uid, "annotations": {annotation: written}}}
    if seen.taints:
        patch["metadata"]["resourceVersion"] = seen.version
        patch["spec"] = {"taints": [row for row in seen.taints if row.get("key") != TAINT] or None}
    return patch
