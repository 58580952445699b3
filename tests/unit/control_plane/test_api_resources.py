"""What versions serve, and what profiles promise of it."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.api_resources import (
    NEWEST_KNOWN,
    OLDEST_KNOWN,
    TRUST_BUNDLES,
    expand_pattern,
    known_resources,
    promised_resources,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profile_options import (
    FULL,
    GENERIC,
    HYPER_MINI,
    MINIMAL,
    PROFILES,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.resource_dependencies import (
    CONTROLLERS,
    FLOW_CONTROL,
    GENERIC_CONTROLLERS,
    SCHEDULER_NEEDS,
    controllers,
    plugins,
    required_resources,
)

MINORS = range(OLDEST_KNOWN, NEWEST_KNOWN + 1)
MUTATING = "mutatingadmissionpolicies.admissionregistration.k8s.io"

# As discovery of generic-apiserver 1.37.1 has it, with no flag that changes it.
DISCOVERED = {
    *("configmaps", "events", "namespaces", "resourcequotas", "secrets", "serviceaccounts"),
    "apiservices.apiregistration.k8s.io",
    "events.events.k8s.io",
    *("selfsubjectreviews.authentication.k8s.io", "tokenreviews.authentication.k8s.io"),
    "localsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    *("certificatesigningrequests.certificates.k8s.io", "clustertrustbundles.certificates.k8s.io"),
    *("clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io"),
    *("rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io"),
    *(MUTATING, "mutatingadmissionpolicybindings.admissionregistration.k8s.io"),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "leases.coordination.k8s.io",
    *("flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"),
}


def test_generic_of_the_newest_version_promises_what_its_server_has_by_default():
    assert promised_resources(GENERIC, 37) == DISCOVERED
    assert {name for name, serving in known_resources(GENERIC, 37).items() if serving.by_default} == DISCOVERED


@pytest.mark.parametrize("minor", MINORS)
def test_hyper_mini_promises_what_generic_does(minor):
    assert promised_resources(HYPER_MINI, minor) == promised_resources(GENERIC, minor)


@pytest.mark.parametrize("minor", MINORS)
def test_trust_bundles_are_promised_in_the_version_that_there_is(minor):
    assert TRUST_BUNDLES in promised_resources(GENERIC, minor)
    serving = known_resources(GENERIC, minor)[TRUST_BUNDLES]
    early = (("certificates.k8s.io/v1beta1",), False, "ClusterTrustBundle")
    assert (serving.group_versions, serving.by_default, serving.gate) == (
        early if minor < 37 else (("certificates.k8s.io/v1",), True, "")
    )


def test_mutating_policies_are_promised_once_they_are_stable():
    assert [MUTATING in promised_resources(GENERIC, minor) for minor in MINORS] == [False, True, True]
    assert known_resources(GENERIC, 35)[MUTATING].gate == "MutatingAdmissionPolicy"


def test_minimal_is_the_same_in_every_version():
    assert len({promised_resources(MINIMAL, minor) for minor in MINORS}) == 1
    assert {name for name in promised_resources(MINIMAL, 37) if "." not in name} == {
        *("configmaps", "namespaces", "secrets", "serviceaccounts")
    }


@pytest.mark.parametrize("minor", MINORS)
def test_full_has_all_of_generic(minor):
    assert known_resources(GENERIC, minor).keys() <= known_resources(FULL, minor).keys()
    assert {"pods", "deployments.apps"} <= promised_resources(FULL, minor)


def test_a_later_version_is_taken_for_the_newest_known_one():
    for profile in PROFILES:
        assert promised_resources(profile, NEWEST_KNOWN + 3) == promised_resources(profile, NEWEST_KNOWN)


def test_keys_of_the_core_group_begin_with_a_slash():
    known = known_resources(FULL, 37)
    assert known["pods"].keys == ("/v1/pods",)
    assert known["leases.coordination.k8s.io"].keys == ("coordination.k8s.io/v1/leases",)
    assert known["horizontalpodautoscalers.autoscaling"].keys == (
        "autoscaling/v1/horizontalpodautoscalers",
        "autoscaling/v2/horizontalpodautoscalers",
    )


def test_a_star_means_what_a_group_has_on():
    known = known_resources(GENERIC, 36)
    leases, candidates = "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io"
    assert expand_pattern("*.coordination.k8s.io", known) == {leases}
    assert expand_pattern("*.coordination.k8s.io", known, served=[candidates]) == {leases, candidates}
    assert expand_pattern("*.storagemigration.k8s.io", known) == {"storageversionmigrations.storagemigration.k8s.io"}
    assert expand_pattern(candidates, known) == {candidates}
    assert not {name for pattern in ("*.example.com", "*.", "leases") for name in expand_pattern(pattern, known)}


@pytest.mark.parametrize("minor", MINORS)
def test_needs_name_resources_that_full_can_serve(minor):
    """Else a letter left out would make a plugin or a controller wait for ever."""
    known = {name for at in MINORS for name in known_resources(FULL, at)}
    behind_gates = {
        *("podgroups.scheduling.k8s.io", "resourcepoolstatusrequests.resource.k8s.io"),
        "storageversions.internal.apiserver.k8s.io",
    }
    needs = {need for row in CONTROLLERS.values() for need in row} | set(SCHEDULER_NEEDS) | set(FLOW_CONTROL)
    needs |= {need for plugin in plugins(minor).values() for need in plugin.needs}
    assert needs - known == behind_gates
    assert required_resources(FULL, minor).keys() <= known


def test_controllers_are_those_of_the_version():
    """As many as --help of 1.35.8, 1.36.4 and 1.37.1 names."""
    assert [len(controllers(minor)) for minor in MINORS] == [50, 52, 49]
    assert [len(plugins(minor)) for minor in MINORS] == [37, 41, 39]
    assert controllers(36) - controllers(37) == {
        *("cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller")
    }
    assert controllers(37).issuperset(GENERIC_CONTROLLERS)
