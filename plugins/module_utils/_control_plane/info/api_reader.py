# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads from the API server what it serves, and which of that is not native. Parsed strictly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.host.host import Host
from ..._core.text.errors import PeerError
from ..._core.text.json_text import parse_object
from ..record import Record

# Aggregated discovery: all groups in one answer (KEP-3352).
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NAMES = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_PAGE = 500


@dataclass(frozen=True)
class GroupVersion:
    group: str  # empty for the core group
    version: str
    resources: tuple[str, ...]  # sorted; subresources as "serviceaccounts/token"


def read_group_versions(host: Host, record: Record) -> Optional[tuple[GroupVersion, ...]]:
    """Sorted by group and version; None when the API server does not answer."""
    group_versions: list[GroupVersion] = []
    for path in ("/api", "/apis"):
        answer = _get(host, record, path, accept=_DISCOVERY)
        if answer is None:
            return None
        try:
            group_versions += _group_versions(answer)
        except (KeyError, TypeError, AttributeError):
            return None
    return tuple(sorted(group_versions, key=lambda each: (each.group, each.version)))


def native_resources(group_versions: tuple[GroupVersion, ...], foreign: frozenset[str]) -> frozenset[str]:
    """The native resources among those served, as "leases.coordination.k8s.io". `foreign` is what `read_foreign_names`
    returns: names of resources, and group versions such as "v1.wardle.example.com"."""
    return frozenset(
        name
        for each in group_versions
        if f"{each.version}.{each.group}" not in foreign
        for resource in each.resources
        if "/" not in resource
        for name in [f"{resource}.{each.group}" if each.group else resource]
        if name not in foreign
    )


def read_foreign_names(host: Host, record: Record) -> Optional[frozenset[str]]:
    """Names of custom resources, and of APIServices that another server serves; None when that is not known."""
    crds = _all_items(host, record, _CRDS, accept=_NAMES)
    services = _all_items(host, record, _API_SERVICES, accept="application/json")
    if crds is None or services is None:
        return None
    try:
        # The name of a CustomResourceDefinition is PLURAL.GROUP, which the API server enforces.
        return frozenset(
            str(item["metadata"]["name"])
            for item in [*crds, *(each for each in services if (each.get("spec") or {}).get("service"))]
        )
    except (KeyError, TypeError, AttributeError):
        return None


def _all_items(host: Host, record: Record, path: str, *, accept: str) -> Optional[list[dict[str, Any]]]:
    """Every item, page by page; empty where the resource is not served."""
    items: list[dict[str, Any]] = []
    following = ""
    while True:
        query = f"?limit={_PAGE}" + (f"&continue={following}" if following else "")
        answer = _get(host, record, path + query, accept=accept)
        if answer is None:
            return None
        items += answer.get("items") or []
        following = str((answer.get("metadata") or {}).get("continue") or "")
        if not following:
            return items


def _get(host: Host, record: Record, path: str, *, accept: str) -> Optional[dict[str, Any]]:
    """The object; empty for status 404, None for no answer or another status."""
    try:
        answer = record.ask(host, path, accept=accept)
    except PeerError:
        return None
    if answer.status == 404:
        return {}
    return parse_object(answer.body) if answer.status == 200 else None


def _group_versions(answer: dict[str, Any]) -> Iterator[GroupVersion]:
    for group in answer.get("items") or []:
        for version in group["versions"]:
            names = []
            for resource in version.get("resources") or []:
                names.append(str(resource["resource"]))
                names += [f"{names[-1]}/{sub['subresource']}" for sub in resource.get("subresources") or []]
            yield GroupVersion(
                group=str((group.get("metadata") or {}).get("name") or ""),
                version=str(version["version"]),
                resources=tuple(sorted(names)),
            )
