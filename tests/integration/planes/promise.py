# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each profile promises, written down by hand from the description of the feature: the suite expects this of the
running planes, and the table that the engine composes from has to agree with it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profiles import PROFILES
from tests.integration.plane_lab import VERSION

MINOR = int(VERSION.split(".")[1])
FULL = "full"
# Each profile is tried with one of the ways to encrypt.
ENCRYPTION = {"full": "aesgcm", "generic": "secretbox", "minimal": "aesgcm", "hyper-mini": "secretbox"}

_CORE_OF_GENERIC = ("configmaps", "events", "namespaces", "resourcequotas", "secrets", "serviceaccounts")
_CORE_OF_MINIMAL = ("configmaps", "namespaces", "secrets", "serviceaccounts")
_RBAC = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_VALIDATING = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
_MUTATING = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
_REVIEWS = ("localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews")

_GROUPS_OF_MINIMAL: Mapping[str, tuple[str, ...]] = {
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "apiregistration.k8s.io": ("apiservices",),
    "authentication.k8s.io": ("selfsubjectreviews", "tokenreviews"),
    "authorization.k8s.io": _REVIEWS,
    "coordination.k8s.io": ("leases",),
    "rbac.authorization.k8s.io": _RBAC,
}
_GROUPS_OF_GENERIC: Mapping[str, tuple[str, ...]] = {
    **_GROUPS_OF_MINIMAL,
    # Mutating policies are served without being asked for from 1.36 on, when they became v1.
    "admissionregistration.k8s.io": (*_WEBHOOKS, *_VALIDATING, *(_MUTATING if MINOR >= 36 else ())),
    "certificates.k8s.io": ("certificatesigningrequests", "clustertrustbundles"),
    "events.k8s.io": ("events",),
    "flowcontrol.apiserver.k8s.io": ("flowschemas", "prioritylevelconfigurations"),
}

# What everybody knows that a stock API server serves; the rest is whatever it says.
_OF_FULL = (
    *("configmaps", "endpoints", "limitranges", "nodes", "persistentvolumes", "pods", "services"),
    *("daemonsets.apps", "deployments.apps", "statefulsets.apps", "jobs.batch", "cronjobs.batch"),
    *("endpointslices.discovery.k8s.io", "ingresses.networking.k8s.io", "poddisruptionbudgets.policy"),
    *("priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io", "runtimeclasses.node.k8s.io"),
    *("horizontalpodautoscalers.autoscaling", "resourceclaims.resource.k8s.io"),
)

_CONTROLLERS_OF_MINIMAL = (
    *("clusterrole-aggregation", "garbage-collector", "namespace", "root-ca-certificate-publisher"),
    *("serviceaccount", "serviceaccount-token"),
)
_CONTROLLERS_OF_GENERIC = (
    *_CONTROLLERS_OF_MINIMAL,
    *(f"certificatesigningrequest-{part}" for part in ("approving", "cleaner", "signing")),
    *("resourcequota", "validatingadmissionpolicy-status"),
)
_CONTROLLERS_OF_FULL = (*_CONTROLLERS_OF_GENERIC, "daemonset", "deployment", "endpointslice", "job", "node-lifecycle")


def controllers(profile: str) -> frozenset[str]:
    """As kube-controller-manager names them; of `full`, those that must be among them."""
    of = {FULL: _CONTROLLERS_OF_FULL, "minimal": _CONTROLLERS_OF_MINIMAL}
    return frozenset(f"{name}-controller" for name in of.get(profile, _CONTROLLERS_OF_GENERIC))


def promised(profile: str) -> frozenset[str]:
    """Resources as `configmaps` or `leases.coordination.k8s.io`; of `full`, those that must be among them."""
    if profile == FULL:
        return frozenset(_OF_FULL) | promised("generic") - {"clustertrustbundles.certificates.k8s.io"}
    core = _CORE_OF_MINIMAL if profile == "minimal" else _CORE_OF_GENERIC
    groups = _GROUPS_OF_MINIMAL if profile == "minimal" else _GROUPS_OF_GENERIC
    return frozenset(core) | {f"{name}.{group}" for group, names in groups.items() for name in names}


def of_all(*resources: str) -> pytest.MarkDecorator:
    """For the planes of every profile that promises these resources; skipped where none does of this version."""
    profiles = [profile for profile in PROFILES if promised(profile).issuperset(resources)]
    return pytest.mark.parametrize("plane", profiles, indirect=True)
