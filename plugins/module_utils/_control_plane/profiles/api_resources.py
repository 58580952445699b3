# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the API servers of each minor version can serve, and what each profile promises of it. Pure.

Read from the discovery of 1.35.8, 1.36.4 and 1.37.1, with their defaults and with api/all=true. A later minor version is
assumed to serve what the newest known one does, as a stable API is not removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

from .profile_options import FULL, GENERIC, HYPER_MINI, MINIMAL

OLDEST_KNOWN, NEWEST_KNOWN = 35, 37

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
API_SERVICES = "apiservices.apiregistration.k8s.io"
TRUST_BUNDLES = "clustertrustbundles.certificates.k8s.io"


@dataclass(frozen=True)
class ApiResource:
    """A resource as a version serves it. The name is `configmaps` or `leases.coordination.k8s.io`."""

    name: str
    group_versions: tuple[str, ...]  # ("v1",) of the core group, ("coordination.k8s.io/v1",)
    by_default: bool  # False: --runtime-config must switch it on
    gate: str = ""  # the feature gate that it needs

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys in --runtime-config. The core group needs the leading slash of `/v1/pods`: with `v1/pods` the server crashes."""
        resource = self.name.partition(".")[0]
        return tuple(f"{runtime_key(group_version)}/{resource}" for group_version in self.group_versions)


def runtime_key(group_version: str) -> str:
    """The key of a group version in --runtime-config; the core group has the empty name."""
    return group_version if "/" in group_version else f"/{group_version}"


# Group versions that are on by default in every known version, of both API servers.
_STABLE: dict[str, str] = {
    "v1": "configmaps events namespaces resourcequotas secrets serviceaccounts",
    "admissionregistration.k8s.io/v1": "mutatingwebhookconfigurations validatingadmissionpolicies"
    " validatingadmissionpolicybindings validatingwebhookconfigurations",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "apiregistration.k8s.io/v1": "apiservices",
    "authentication.k8s.io/v1": "selfsubjectreviews tokenreviews",
    "authorization.k8s.io/v1": "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews"
    " subjectaccessreviews",
    "certificates.k8s.io/v1": "certificatesigningrequests",
    "coordination.k8s.io/v1": "leases",
    "events.k8s.io/v1": "events",
    "flowcontrol.apiserver.k8s.io/v1": "flowschemas prioritylevelconfigurations",
    "rbac.authorization.k8s.io/v1": "clusterrolebindings clusterroles rolebindings roles",
}

# Also on by default in every known version, but of kube-apiserver only.
_STABLE_FULL: dict[str, str] = {
    "v1": "bindings componentstatuses endpoints limitranges nodes persistentvolumeclaims persistentvolumes pods"
    " podtemplates replicationcontrollers services",
    "apps/v1": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "autoscaling/v1": "horizontalpodautoscalers",
    "autoscaling/v2": "horizontalpodautoscalers",
    "batch/v1": "cronjobs jobs",
    "discovery.k8s.io/v1": "endpointslices",
    "networking.k8s.io/v1": "ingressclasses ingresses ipaddresses networkpolicies servicecidrs",
    "node.k8s.io/v1": "runtimeclasses",
    "policy/v1": "poddisruptionbudgets",
    "resource.k8s.io/v1": "deviceclasses resourceclaims resourceclaimtemplates resourceslices",
    "scheduling.k8s.io/v1": "priorityclasses",
    "storage.k8s.io/v1": "csidrivers csinodes csistoragecapacities storageclasses volumeattachments"
    " volumeattributesclasses",
}


@dataclass(frozen=True)
class _Row:
    """Resources that not every known version, not each API server, or no API server by default serves.

    `on` holds the API servers that serve them by default. `since` and `until` are minor versions.
    """

    resources: str
    group_version: str
    on: str = "generic full"
    since: int = OLDEST_KNOWN
    until: Optional[int] = None  # the last one
    gate: str = ""
    only_full: bool = False


_POLICIES = "mutatingadmissionpolicies mutatingadmissionpolicybindings"
_CHANGING = (
    _Row("clustertrustbundles", "certificates.k8s.io/v1beta1", on="", until=36, gate="ClusterTrustBundle"),
    _Row("clustertrustbundles", "certificates.k8s.io/v1", since=37),
    _Row(_POLICIES, "admissionregistration.k8s.io/v1beta1", on="", until=35, gate="MutatingAdmissionPolicy"),
    _Row(_POLICIES, "admissionregistration.k8s.io/v1", since=36),
    _Row("leasecandidates", "coordination.k8s.io/v1beta1", on="", gate="CoordinatedLeaderElection"),
    _Row("storageversionmigrations", "storagemigration.k8s.io/v1beta1", on="", until=36, gate="StorageVersionMigrator"),
    _Row("storageversionmigrations", "storagemigration.k8s.io/v1", on="full", since=37),
    _Row("podcertificaterequests", "certificates.k8s.io/v1", since=37, only_full=True),
    _Row("devicetaintrules", "resource.k8s.io/v1", since=37, only_full=True),
)

# What profiles promise. Profile full promises everything that is on by default. `*.GROUP` stands for the resources of the
# group that the version serves by default.
_GENERIC_PROMISE = (
    "configmaps",
    "events",
    "namespaces",
    "resourcequotas",
    "secrets",
    "serviceaccounts",
    "*.admissionregistration.k8s.io",
    "*.apiextensions.k8s.io",
    "*.apiregistration.k8s.io",
    "*.authentication.k8s.io",
    "*.authorization.k8s.io",
    "*.certificates.k8s.io",
    TRUST_BUNDLES,
    "*.coordination.k8s.io",
    "*.events.k8s.io",
    "*.flowcontrol.apiserver.k8s.io",
    "*.rbac.authorization.k8s.io",
)
_PROMISES: dict[str, tuple[str, ...]] = {
    GENERIC: _GENERIC_PROMISE,
    HYPER_MINI: _GENERIC_PROMISE,
    MINIMAL: (
        "configmaps",
        "namespaces",
        "secrets",
        "serviceaccounts",
        "*.apiextensions.k8s.io",
        "*.apiregistration.k8s.io",
        "*.authentication.k8s.io",
        "*.authorization.k8s.io",
        "*.coordination.k8s.io",
        "*.rbac.authorization.k8s.io",
    ),
}


@lru_cache(maxsize=32)
def known_resources(profile: str, minor: int) -> Mapping[str, ApiResource]:
    """The resources that the API server of the profile can serve, by name."""
    resources_by_name: dict[str, ApiResource] = {}
    tables = [_STABLE, _STABLE_FULL] if profile == FULL else [_STABLE]
    for table in tables:
        for group_version, resources in table.items():
            _add(resources_by_name, group_version, resources)
    at = min(minor, NEWEST_KNOWN)
    server = "full" if profile == FULL else "generic"
    for row in _CHANGING:
        if row.since <= at <= (row.until or at) and (profile == FULL or not row.only_full):
            _add(resources_by_name, row.group_version, row.resources, by_default=server in row.on, gate=row.gate)
    return resources_by_name


@lru_cache(maxsize=32)
def promised_resources(profile: str, minor: int) -> frozenset[str]:
    """The resources that the profile promises; those of full are the defaults."""
    known = known_resources(profile, minor)
    if profile == FULL:
        return frozenset(name for name, serving in known.items() if serving.by_default)
    return frozenset(name for pattern in _PROMISES[profile] for name in expand_pattern(pattern, known))


def expand_pattern(pattern: str, known: Mapping[str, ApiResource], *, served: Iterable[str] = ()) -> frozenset[str]:
    """The names that match `NAME` or `*.GROUP`; none for an unknown name.

    `*.GROUP` matches the resources of the group that are on by default or `served`, or all of the group when there are none.
    """
    if not pattern.startswith("*."):
        return frozenset({pattern} & known.keys())
    group = frozenset(name for name in known if "." in name and name.partition(".")[2] == pattern[2:])
    usual = frozenset(name for name in group if known[name].by_default) | (group & frozenset(served))
    return usual or group


def _add(
    resources_by_name: dict[str, ApiResource],
    group_version: str,
    resources: str,
    *,
    by_default: bool = True,
    gate: str = "",
) -> None:
    group = group_version.rpartition("/")[0]
    for resource in resources.split():
        name = f"{resource}.{group}" if group else resource
        before = resources_by_name[name].group_versions if name in resources_by_name else ()
        resources_by_name[name] = ApiResource(name, (*before, group_version), by_default, gate)
