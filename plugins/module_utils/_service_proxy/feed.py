# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Follows Services, EndpointSlices, this Node and ServiceCIDRs, and passes on what changed.

Objects are parsed on arrival, in the informer's threads, one page of a list at a time; the JSON is not kept. An object that
is listed again (after an outage, or when the version to resume from is too old) with a known version is skipped, so an
outage without changes costs a list and no rule.

The loop gets the latest state of each object, however often it changed meanwhile, and nothing at all until everything has
been listed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from .._core.host.gc_pause import pause_collection
from .._core.kube.informer import Informer, Resource
from .._core.text.errors import PeerError
from .._rules.services import HEADLESS_LABEL, PROXY_NAME_LABEL
from .objects import CIDR, NODE, SERVICE, SLICE, Key, Seen, gone, key_of, part_of, read_object

if TYPE_CHECKING:
    from .._core.kube.client import Api


_PAGE_OBJECTS = 1000  # pages of 500 would take twice as many connections


@dataclass(frozen=True)
class Followed(Resource):
    """`name` is the kind of the objects."""

    optional: bool = False  # empty if the server does not offer it, or not to us


def resources_of(node_name: str, service_proxy_name: str) -> tuple[Followed, ...]:
    """Label selectors keep the server from sending what makes no rules. Older releases select by more labels
    (`Release.selects_by_both_labels`), which `Objects.state_of` checks."""
    own = f"{PROXY_NAME_LABEL}={service_proxy_name}" if service_proxy_name else f"!{PROXY_NAME_LABEL}"
    return (
        Followed(SERVICE, "/api/v1/services", {"labelSelector": own}),
        Followed(SLICE, "/apis/discovery.k8s.io/v1/endpointslices", {"labelSelector": f"!{HEADLESS_LABEL}"}),
        Followed(NODE, "/api/v1/nodes", {"fieldSelector": f"metadata.name={node_name}"}),
        Followed(name=CIDR, path="/apis/networking.k8s.io/v1/servicecidrs", optional=True),
    )


class Feed(Informer[Followed]):
    def __init__(
        self, connect: Callable[[], Api], node_name: str, service_proxy_name: str, wake: Callable[[], None]
    ) -> None:
        """`wake` is called in the informer's threads when there is something to take."""
        super().__init__(connect, resources_of(node_name, service_proxy_name))
        self._proxy_name = service_proxy_name or None
        self._wake = wake
        self._versions_of: dict[str, dict[Key, str]] = {}  # by kind: of objects passed on or waiting
        self._waiting: dict[tuple[str, Key], Seen] = {}

    @property
    def complete(self) -> bool:
        """Whether everything has been listed once."""
        with self._lock:
            return len(self._versions_of) == len(self._resources)

    def take(self) -> list[Seen]:
        """What changed since the last call; [] until everything has been listed once."""
        with self._lock:
            if len(self._versions_of) < len(self._resources):
                return []
            waiting, self._waiting = self._waiting, {}
        return list(waiting.values())

    @pause_collection()
    def _list(self, api: Api, resource: Followed) -> str:
        known = self._versions_of.get(resource.name, {})
        listed: dict[Key, str] = {}
        seen: list[Seen] = []
        version = ""
        try:
            for page in api.pages(resource.path, resource.params, objects=_PAGE_OBJECTS):
                version = page.resource_version
                for item in page.items:
                    key = key_of(item)
                    listed[key] = _version(item)
                    if not listed[key] or known.get(key) != listed[key]:
                        seen.append(read_object(resource.name, item, self._proxy_name))
        except PeerError as error:
            # For a resource that was served before, a refusal proves nothing: its objects are kept, and it counts as lost
            # until it is served again.
            is_unserved = error.id == "core-api-absent" or (error.id == "core-api-forbidden" and not known)
            if not (resource.optional and is_unserved):
                raise
            version = ""
        with self._lock:
            for key in known.keys() - listed.keys():
                seen.append(gone(resource.name, key))
            self._versions_of[resource.name] = listed
            for each in seen:
                self._waiting[each.kind, each.key] = each
        return version

    def _take(self, resource: Followed, kind: str, item: Mapping[str, Any]) -> None:
        key, versions = key_of(item), self._versions_of[resource.name]
        if kind == "DELETED":
            versions.pop(key, None)
            self._waiting[resource.name, key] = gone(resource.name, key)
        else:
            versions[key] = _version(item)
            self._waiting[resource.name, key] = read_object(resource.name, item, self._proxy_name)
        self._wake()

    def _ring(self) -> None:
        self._wake()


def _version(item: Mapping[str, Any]) -> str:
    version: Optional[Any] = part_of(item, "metadata").get("resourceVersion")
    return version if isinstance(version, str) else ""
