# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster as the sizing of nodes sees it: its fleet, kept up to date, and the few writes that there are.

    with Cluster(api, host, namespace="kube-system") as cluster:    # lists; PeerError where that cannot be
        cluster.fleet()                                             # as of now, without a call
        cluster.resize(action)                                      # one call
        cluster.wait(5)                                             # until something changes

Of each resize there is one PATCH of pods/resize and one of the Node; the lists and watches are once for all nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Optional

from .._core.errors import BallastError
from .._core.host import Host
from .._core.kubeapi import STRATEGIC_MERGE_PATCH, Api, Refused
from .amount import Amount
from .cluster_messages import MESSAGES
from .facts import CONTAINER, SIZES, TAINT, Fleet, Names, Node
from .following import NODES, PODS, Following, Seen
from .reading import Machine, Reading
from .sizing import with_reserves
from .steering import Resize

_CONFLICTS = 5  # of one Node: the kubelet, and whoever else writes it, leave gaps
_TEMPORARY = (410, 429, 500, 502, 503, 504)  # 410: a list that was forgotten between two of its pages
# What stands in the words of a refusal, in the order in which it is looked for. Of the admission plugins of the API server:
# resourcequota, limitranger, webhook and policy/validating; and of its authorization.
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
    """`reserve` is that of each host, None for the sum of what its kubelets reserve. Threads may share it."""

    def __init__(
        self,
        api: Api,
        host: Host,
        *,
        namespace: str,
        names: Names = SIZES,
        reserve: Optional[Amount] = None,
        machine: Optional[Machine] = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._names = names
        self._reserve = reserve
        self._following = Following(api, host, namespace=namespace, names=names, machine=machine)

    def load(self) -> None:
        """List all of it: for who only reads, and for who must know what is there now, however late a watch is."""
        self._following.load()

    def __enter__(self) -> Cluster:
        self._following.load()
        self._following.start()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._following.end()

    def reading(self) -> Reading:
        """With the problems of whoever else has written nodes and pods."""
        found = self._following.reading()
        return Reading(with_reserves(found.fleet, self._reserve), found.problems)

    def fleet(self) -> Fleet:
        """Without limits, which the API does not know."""
        return self.reading().fleet

    @property
    def calls(self) -> Mapping[str, int]:
        """How many calls there were, as in {"PATCH pods/resize": 3}."""
        return self._following.calls

    @property
    def lost(self) -> Optional[tuple[float, BallastError]]:
        """For how many seconds the API server has not been followed, and why; None while it is."""
        return self._following.lost

    def wait(self, seconds: float) -> bool:
        """Until something has changed since the last wait, or somebody rings. False where nothing has in time."""
        rung = self._following.bell.wait(seconds)
        self._following.bell.clear()
        return rung

    def ring(self) -> None:
        """End the wait of another thread."""
        self._following.bell.set()

    def resize(self, action: Resize) -> None:
        """One PATCH, which has no effect on a pod that is not as it was when that was decided.

        `balloon-changed` where it is not: it has been read anew then. `balloon-refused-...` by who refuses. Any other
        PeerError (see `is_temporary`) leaves open whether the server has done it.
        """
        key = (action.namespace, action.pod)
        seen = self._following.seen(PODS, key)
        if seen is None or seen.version != action.resource_version:
            raise _changed(action)
        try:
            found = self._patch_resize(action, seen)
        except Refused as error:
            if is_temporary(error):
                raise
            there = error.status not in (404, 409) or self._read_anew(action, seen)
            if error.status == 409 or not there:
                raise _changed(action) from error
            raise refusal(action, error) from error
        self._following.answered(PODS, found)

    def annotate(self, name: str, target: Optional[Amount]) -> None:
        """The node's balloon holds `target`: write so to its Node, and take the startup taint away. None removes the
        annotation. No call where all is so already."""
        self._write_node(name, lambda node: target)

    def untaint(self, name: str) -> None:
        """The node's balloon holds its target: take the startup taint away, and leave the annotation as it is."""
        self._write_node(name, lambda node: node.target)

    def _write_node(self, name: str, target_of: Callable[[Node], Optional[Amount]]) -> None:
        for attempt in range(_CONFLICTS):
            # In this order: where the node is the newer of the two, the patch conflicts, and all is read anew.
            seen = self._following.seen(NODES, ("", name))
            if seen is not None and not self._names.size_nodes:
                seen = seen._replace(taints=())  # of the startup taint it is not known whether the node is sized
            node = self._following.reading().fleet.nodes.get(name)
            if node is None or seen is None or (node.target == target_of(node) and not seen.taints):
                return
            try:
                self._following.count("PATCH nodes")
                body = _node_patch(seen, self._names.target, target_of(node))
                self._following.answered(NODES, self._api.patch(f"/api/v1/nodes/{name}", body))
                return
            except Refused as error:
                if error.status == 404:
                    return
                if error.status != 409 or attempt == _CONFLICTS - 1:
                    raise
            self._following.count("GET nodes")
            self._following.answered(NODES, self._api.get(f"/api/v1/nodes/{name}"))

    def _patch_resize(self, action: Resize, seen: Seen) -> dict[str, Any]:
        size = action.size.as_quantities()
        # Memory is limited to what is requested: so the container has no swap, and can be resized (KEP-1287).
        resources = {"requests": size, "limits": {"memory": size["memory"]}}
        self._following.count("PATCH pods/resize")
        return self._api.patch(
            f"{_pod_path(action)}/resize",
            {
                "metadata": {"uid": seen.uid, "resourceVersion": seen.version},
                "spec": {"containers": [{"name": CONTAINER, "resources": resources}]},
            },
            content_type=STRATEGIC_MERGE_PATCH,
        )

    def _read_anew(self, action: Resize, seen: Seen) -> bool:
        """Whether the pod is still there."""
        self._following.count("GET pods")
        found = self._api.find(_pod_path(action))
        if found is None:
            self._following.gone(PODS, (action.namespace, action.pod), seen.uid)
            return False
        self._following.answered(PODS, found)
        return True


def is_temporary(error: BallastError) -> bool:
    """Worth another try after a while: no answer, or the server has too much to do or is not itself."""
    return error.id == "core-no-answer" or (isinstance(error, Refused) and error.status in _TEMPORARY)


def refusal(action: Resize, error: Refused) -> BallastError:
    """Who refuses a resize, and why, by status and words of the answer."""
    by_words = (id for words, id in _WORDS if words in error.found)
    id = next(by_words, None) or _STATUSES.get(error.status, "balloon-refused-otherwise")
    return MESSAGES.error(id, node=action.node, namespace=action.namespace, size=action.size, found=error.found)


def _changed(action: Resize) -> BallastError:
    return MESSAGES.error("balloon-changed", node=action.node)


def _pod_path(action: Resize) -> str:
    return f"/api/v1/namespaces/{action.namespace}/pods/{action.pod}"


def _node_patch(seen: Seen, annotation: str, target: Optional[Amount]) -> dict[str, Any]:
    """A list is replaced by a patch as a whole: of taints that others write too, only where nothing has changed."""
    written = None if target is None else json.dumps(target.as_quantities(), sort_keys=True)
    patch: dict[str, Any] = {"metadata": {"uid": seen.uid, "annotations": {annotation: written}}}
    if seen.taints:
        patch["metadata"]["resourceVersion"] = seen.version
        patch["spec"] = {"taints": [row for row in seen.taints if row.get("key") != TAINT] or None}
    return patch
