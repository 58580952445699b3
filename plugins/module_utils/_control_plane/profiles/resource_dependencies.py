# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which resources must be served for an admission plugin, a controller or the scheduler to work. Pure.

Most of them watch these resources, and do nothing until the first list has arrived. The /readyz of an API server shows that:
it fails at informer-sync while a plugin waits. The others only act on these resources.
Read from the sources of 1.35.8, 1.36.4 and 1.37.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .api_resources import NEWEST_KNOWN, OLDEST_KNOWN, TRUST_BUNDLES
from .profile_options import FULL

_CSR = "certificatesigningrequests.certificates.k8s.io"
_POLICY = "admissionregistration.k8s.io"
_MUTATING = f"namespaces mutatingadmissionpolicies.{_POLICY} mutatingadmissionpolicybindings.{_POLICY}"
_VOLUMES = "pods persistentvolumeclaims persistentvolumes"
_STORAGE_CLASSES = "storageclasses.storage.k8s.io"
_DEVICES = "pods resourceclaims.resource.k8s.io resourceslices.resource.k8s.io deviceclasses.resource.k8s.io"
_SLICES = "endpointslices.discovery.k8s.io"


@dataclass(frozen=True)
class Plugin:
    """An admission plugin, and which API servers enable it by default. `since` and `until` are minor versions.

    Without its `gate` a plugin does nothing and waits for nothing.
    """

    name: str
    needs: tuple[str, ...] = ()
    in_generic: bool = False
    in_full: bool = False
    since: int = OLDEST_KNOWN
    until: Optional[int] = None  # the last one
    gate: str = ""
    unusable: str = ""  # why no control plane becomes ready with it

    def on_by_default(self, profile: str) -> bool:
        return self.in_full if profile == FULL else self.in_generic


def _plugin(
    name: str, needs: str = "", on: str = "", *, since: int = OLDEST_KNOWN, until: Optional[int] = None, gate: str = ""
) -> Plugin:
    return Plugin(name, tuple(needs.split()), "generic" in on, "full" in on, since, until, gate)


_CONFIGURED = "it does not start without a configuration file, which no option here gives it"

_PLUGINS = (
    Plugin("AlwaysDeny", unusable="it refuses the objects that the API server itself makes at its start"),
    Plugin("EventRateLimit", unusable=_CONFIGURED),
    Plugin("ImagePolicyWebhook", unusable=_CONFIGURED),
    _plugin("AlwaysAdmit"),
    _plugin("AlwaysPullImages", "pods"),
    _plugin("CertificateApproval", _CSR, on="generic full"),
    _plugin("CertificateSigning", _CSR, on="generic full"),
    _plugin("CertificateSubjectRestriction", _CSR, on="generic full"),
    _plugin("ClusterTrustBundleAttest", TRUST_BUNDLES, on="generic full", since=37),
    _plugin("ClusterTrustBundleAttest", TRUST_BUNDLES, on="generic full", until=36, gate="ClusterTrustBundle"),
    _plugin("DefaultIngressClass", "ingressclasses.networking.k8s.io", on="full"),
    _plugin("DefaultStorageClass", _STORAGE_CLASSES, on="full"),
    _plugin("DefaultTolerationSeconds", on="generic full"),
    _plugin("DenyServiceExternalIPs", "services"),
    _plugin("ExtendedResourceToleration", "pods"),
    _plugin("JobValidation", "jobs.batch", on="full", since=36, until=36),
    _plugin("LimitPodHardAntiAffinityTopology", "pods"),
    _plugin("LimitRanger", "limitranges", on="full"),
    _plugin("MutatingAdmissionPolicy", _MUTATING, on="generic full", since=36),
    _plugin("MutatingAdmissionPolicy", _MUTATING, on="generic full", until=35, gate="MutatingAdmissionPolicy"),
    _plugin("MutatingAdmissionWebhook", f"namespaces mutatingwebhookconfigurations.{_POLICY}", on="generic full"),
    _plugin("NamespaceAutoProvision", "namespaces"),
    _plugin("NamespaceExists", "namespaces"),
    _plugin("NamespaceLifecycle", "namespaces", on="generic full"),
    _plugin("NodeDeclaredFeatureValidator", "nodes", on="full"),
    _plugin("NodeRestriction", f"{_VOLUMES} nodes csidrivers.storage.k8s.io serviceaccounts"),
    _plugin("OwnerReferencesPermissionEnforcement"),
    _plugin("PersistentVolumeClaimResize", _STORAGE_CLASSES, on="full"),
    _plugin("PodGroupProtection", "pods", on="full", since=36),
    _plugin("PodGroupWorkloadExists", "pods", on="full", since=36, until=36),
    _plugin("PodNodeSelector", "namespaces pods"),
    _plugin("PodResizeValidator", "nodes", on="full", since=36),
    _plugin("PodSecurity", "namespaces pods", on="full"),
    _plugin("PodTolerationRestriction", "namespaces pods"),
    _plugin("PodTopologyLabels", "nodes", on="full"),
    _plugin("Priority", "priorityclasses.scheduling.k8s.io", on="full"),
    _plugin("ResourceQuota", "resourcequotas", on="generic full"),
    _plugin("RuntimeClass", "runtimeclasses.node.k8s.io", on="full"),
    _plugin("ServiceAccount", "serviceaccounts", on="generic full"),
    _plugin("StorageObjectInUseProtection", "persistentvolumeclaims persistentvolumes", on="full"),
    _plugin("TaintNodesByCondition", "nodes", on="full"),
    _plugin(
        "ValidatingAdmissionPolicy",
        f"namespaces validatingadmissionpolicies.{_POLICY} validatingadmissionpolicybindings.{_POLICY}",
        on="generic full",
    ),
    _plugin("ValidatingAdmissionWebhook", f"namespaces validatingwebhookconfigurations.{_POLICY}", on="generic full"),
)

_CONTROLLERS: dict[str, str] = {
    "bootstrap-signer-controller": "secrets configmaps",
    # This controller checks whether the requester may have the certificate.
    "certificatesigningrequest-approving-controller": f"{_CSR} subjectaccessreviews.authorization.k8s.io",
    "certificatesigningrequest-cleaner-controller": _CSR,
    "certificatesigningrequest-signing-controller": _CSR,
    "cloud-node-lifecycle-controller": "nodes",
    "clusterrole-aggregation-controller": "clusterroles.rbac.authorization.k8s.io",
    "cronjob-controller": "jobs.batch cronjobs.batch",
    "daemonset-controller": "daemonsets.apps controllerrevisions.apps pods nodes",
    "deployment-controller": "deployments.apps replicasets.apps pods",
    "device-taint-eviction-controller": f"{_DEVICES} devicetaintrules.resource.k8s.io",
    "disruption-controller": "pods poddisruptionbudgets.policy replicationcontrollers replicasets.apps deployments.apps"
    " statefulsets.apps",
    "endpoints-controller": "pods services endpoints",
    "endpointslice-controller": f"pods services nodes {_SLICES}",
    "endpointslice-mirroring-controller": f"endpoints services {_SLICES}",
    "ephemeral-volume-controller": "pods persistentvolumeclaims",
    "garbage-collector-controller": "",
    "horizontal-pod-autoscaler-controller": "horizontalpodautoscalers.autoscaling pods",
    "job-controller": "pods jobs.batch",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": TRUST_BUNDLES,
    "legacy-serviceaccount-token-cleaner-controller": "serviceaccounts secrets pods",
    "namespace-controller": "namespaces",
    "node-ipam-controller": "nodes",
    "node-lifecycle-controller": "leases.coordination.k8s.io pods nodes daemonsets.apps",
    "node-route-controller": "nodes",
    "persistentvolume-attach-detach-controller": f"{_VOLUMES} nodes csinodes.storage.k8s.io csidrivers.storage.k8s.io"
    " volumeattachments.storage.k8s.io",
    "persistentvolume-binder-controller": f"{_VOLUMES} nodes {_STORAGE_CLASSES}",
    "persistentvolume-expander-controller": "persistentvolumeclaims",
    "persistentvolume-protection-controller": "persistentvolumes",
    "persistentvolumeclaim-protection-controller": "persistentvolumeclaims pods",
    "pod-garbage-collector-controller": "pods nodes",
    "podcertificaterequest-cleaner-controller": "podcertificaterequests.certificates.k8s.io",
    "podgroup-protection-controller": "podgroups.scheduling.k8s.io pods",
    "replicaset-controller": "replicasets.apps pods",
    "replicationcontroller-controller": "pods replicationcontrollers",
    "resourceclaim-controller": "pods resourceclaims.resource.k8s.io resourceclaimtemplates.resource.k8s.io",
    "resourcepoolstatusrequest-controller": "resourcepoolstatusrequests.resource.k8s.io",
    "resourcequota-controller": "resourcequotas",
    "root-ca-certificate-publisher-controller": "configmaps namespaces",
    "selinux-warning-controller": f"{_VOLUMES} csidrivers.storage.k8s.io",
    "service-cidr-controller": "servicecidrs.networking.k8s.io ipaddresses.networking.k8s.io",
    "service-lb-controller": "services nodes",
    "serviceaccount-controller": "serviceaccounts namespaces",
    "serviceaccount-token-controller": "serviceaccounts secrets",
    "statefulset-controller": "pods statefulsets.apps persistentvolumeclaims controllerrevisions.apps",
    "storage-version-migrator-controller": "storageversionmigrations.storagemigration.k8s.io",
    "storageversion-garbage-collector-controller": "leases.coordination.k8s.io storageversions.internal.apiserver.k8s.io",
    "taint-eviction-controller": "pods nodes",
    "token-cleaner-controller": "secrets",
    "ttl-after-finished-controller": "jobs.batch",
    "ttl-controller": "nodes",
    "validatingadmissionpolicy-status-controller": f"validatingadmissionpolicies.{_POLICY}",
    "volumeattributesclass-protection-controller": "persistentvolumeclaims persistentvolumes"
    " volumeattributesclasses.storage.k8s.io",
}

CONTROLLERS: dict[str, tuple[str, ...]] = {name: tuple(needs.split()) for name, needs in _CONTROLLERS.items()}
# The first and the last minor version of the controllers that not every known version has.
_CONTROLLERS_IN = {
    "cloud-node-lifecycle-controller": (OLDEST_KNOWN, 36),
    "node-route-controller": (OLDEST_KNOWN, 36),
    "podgroup-protection-controller": (36, None),
    "resourcepoolstatusrequest-controller": (36, None),
    "service-lb-controller": (OLDEST_KNOWN, 36),
}
OFF_BY_DEFAULT = ("bootstrap-signer-controller", "selinux-warning-controller", "token-cleaner-controller")

# The controllers of a control plane without pods: KEP-4080's generic part. hyper-mini runs them in its process.
GENERIC_CONTROLLERS = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "validatingadmissionpolicy-status-controller",
)

# The scheduler places no pod while one of these is missing.
SCHEDULER_NEEDS = tuple(
    f"{_DEVICES} {_VOLUMES} nodes namespaces services replicationcontrollers replicasets.apps statefulsets.apps"
    f" poddisruptionbudgets.policy {_STORAGE_CLASSES} csinodes.storage.k8s.io csidrivers.storage.k8s.io"
    " csistoragecapacities.storage.k8s.io volumeattachments.storage.k8s.io devicetaintrules.resource.k8s.io".split()
)

# Resources without which no API server becomes ready, with the reason.
_FIXED: dict[str, str] = {
    "namespaces": "the API server makes its own namespaces in it, and admission looks every one up",
    "secrets": "the API server watches it to check ServiceAccount tokens",
    "serviceaccounts": "the API server watches it to check ServiceAccount tokens",
    "roles.rbac.authorization.k8s.io": "every request is authorized by RBAC",
    "rolebindings.rbac.authorization.k8s.io": "every request is authorized by RBAC",
    "clusterroles.rbac.authorization.k8s.io": "every request is authorized by RBAC",
    "clusterrolebindings.rbac.authorization.k8s.io": "every request is authorized by RBAC",
}

# Further resources without which kube-apiserver does not become ready; the second table from 1.37 on.
_NODES = "the API server watches it, to know what a kubelet may see and change"
_SERVICES = "the API server gives Services their addresses"
_FIXED_FULL: dict[str, str] = {
    "csidrivers.storage.k8s.io": _NODES,
    "endpointslices.discovery.k8s.io": "the API server watches it, to reach extension API servers",
    "ipaddresses.networking.k8s.io": _SERVICES,
    "nodes": _NODES,
    "persistentvolumeclaims": _NODES,
    "persistentvolumes": _NODES,
    "podcertificaterequests.certificates.k8s.io": _NODES,
    "pods": _NODES,
    "resourceslices.resource.k8s.io": _NODES,
    "servicecidrs.networking.k8s.io": _SERVICES,
    "services": _SERVICES,
    "volumeattachments.storage.k8s.io": _NODES,
}
_WEBHOOK_TOKENS = "the API server watches it to check tokens that are bound to a webhook"
_FIXED_FULL_37: dict[str, str] = {
    f"mutatingwebhookconfigurations.{_POLICY}": _WEBHOOK_TOKENS,
    f"validatingwebhookconfigurations.{_POLICY}": _WEBHOOK_TOKENS,
}

FLOW_CONTROL = (
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
)


@dataclass(frozen=True)
class PairedResource:
    """A resource that needs another one to be served, which the API server watches. `since` is a minor version."""

    resource: str
    other: str
    reason: str
    since: int = OLDEST_KNOWN


_FAIRNESS = "priority and fairness is configured by both"
PAIRED_RESOURCES = (
    PairedResource(FLOW_CONTROL[0], FLOW_CONTROL[1], _FAIRNESS),
    PairedResource(FLOW_CONTROL[1], FLOW_CONTROL[0], _FAIRNESS),
    PairedResource(
        "resourceclaims.resource.k8s.io", "deviceclasses.resource.k8s.io", "quota counts claims by class", since=36
    ),
)


def controllers(minor: int) -> frozenset[str]:
    """The controllers that kube-controller-manager of a minor version has."""
    at = min(max(minor, OLDEST_KNOWN), NEWEST_KNOWN)
    rows = ((name, *_CONTROLLERS_IN.get(name, (OLDEST_KNOWN, None))) for name in CONTROLLERS)
    return frozenset(name for name, since, until in rows if since <= at <= (until or at))


def plugins(minor: int) -> dict[str, Plugin]:
    """The admission plugins that the programs of a minor version have, by name."""
    at = min(minor, NEWEST_KNOWN)
    return {plugin.name: plugin for plugin in _PLUGINS if plugin.since <= at <= (plugin.until or at)}


def required_resources(profile: str, minor: int) -> dict[str, str]:
    """The resources that the profile needs, with the reason. CRDs and APIServices have their own options."""
    if profile != FULL:
        return _FIXED
    return {**_FIXED, **_FIXED_FULL, **(_FIXED_FULL_37 if minor >= 37 else {})}
