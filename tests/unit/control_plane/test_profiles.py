"""What a choice comes to, and which choices are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.api_resources import (
    API_SERVICES,
    CRDS,
    TRUST_BUNDLES,
    known_resources,
    promised_resources,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profiles import (
    ALL_IN_ONE,
    API_SERVER,
    CONTROLLER_MANAGER,
    DEPLOYMENT_MODES,
    EMBEDDED,
    ETCD_CHOICES,
    FULL,
    GENERIC,
    GENERIC_API_SERVER,
    HYPER_MINI,
    MINIMAL,
    PROFILES,
    SEPARATE,
    Choice,
    Composition,
    compose,
    default_deployment_mode,
    default_etcd,
    find_problems,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.resource_dependencies import (
    CONTROLLERS,
    FLOW_CONTROL,
    GENERIC_CONTROLLERS,
    plugins,
    required_resources,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.rules import RULES
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems

VERSIONS = ("1.35.8", "1.36.4", "1.37.1", "1.39.0")
LEASES = "leases.coordination.k8s.io"
DEPLOYMENTS = "deployments.apps"
_LISTS = [field.name for field in dataclasses.fields(Choice) if field.default == ()]


def chosen(profile: str = GENERIC, **changes: Any) -> Choice:
    mode = changes.get("deployment_mode", default_deployment_mode(profile))
    usual = {
        "version": "1.37.1",
        "deployment_mode": mode,
        "crds": True,
        "aggregation": True,
        "etcd": default_etcd(mode),
    }
    return Choice(profile=profile, **{**usual, **changes})


def values(composition: Composition, process: str, flag: str) -> list[str]:
    """The values of a flag that is a list."""
    return [word for one in composition.flags[process] if one.name == flag for word in one.value.split(",")]


def ids(choice: Choice) -> list[str]:
    return [problem.id for problem in find_problems(choice)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_can_be_had_of_every_version_in_its_deployment_mode(profile, version):
    found = compose(chosen(profile, version=version))
    assert set(found.resources) == (
        set() if profile == FULL else promised_resources(profile, int(version.split(".")[1]))
    )
    assert found.everything_served == (profile == FULL)
    assert found.flags.keys() == set(found.processes)


def test_processes_stand_in_the_order_of_starting():
    assert compose(chosen(FULL)).processes == ("etcd", API_SERVER, CONTROLLER_MANAGER, "kube-scheduler")
    assert compose(chosen(GENERIC)).processes == ("etcd", GENERIC_API_SERVER, CONTROLLER_MANAGER)
    assert compose(chosen(GENERIC, etcd="existing")).processes == (GENERIC_API_SERVER, CONTROLLER_MANAGER)
    assert compose(chosen(HYPER_MINI)).processes == (HYPER_MINI,)
    assert compose(chosen(MINIMAL, deployment_mode=ALL_IN_ONE, etcd="external")).processes == ("etcd", HYPER_MINI)


def test_a_full_plane_as_it_is_asks_for_nothing():
    found = compose(chosen(FULL))
    assert not any(found.flags.values())
    assert {"job-controller", "garbage-collector-controller"} <= set(found.controllers)
    assert "selinux-warning-controller" not in found.controllers


def test_generic_of_the_newest_version_is_what_its_server_has_by_default():
    found = compose(chosen(GENERIC))
    assert found.flags[GENERIC_API_SERVER] == ()
    assert found.controllers == GENERIC_CONTROLLERS == tuple(values(found, CONTROLLER_MANAGER, "controllers"))


def test_trust_bundles_are_switched_on_where_they_are_beta():
    found = compose(chosen(GENERIC, version="1.36.4"))
    key = "certificates.k8s.io/v1beta1/clustertrustbundles=true"
    assert values(found, GENERIC_API_SERVER, "runtime-config") == [key]
    assert values(found, GENERIC_API_SERVER, "feature-gates") == ["ClusterTrustBundle=true"]


def test_minimal_takes_away_what_it_does_not_promise_and_all_that_would_wait_for_it():
    found = compose(chosen(MINIMAL))
    assert values(found, GENERIC_API_SERVER, "runtime-config") == [
        "admissionregistration.k8s.io/v1=false",
        "certificates.k8s.io/v1=false",
        "events.k8s.io/v1=false",
        "flowcontrol.apiserver.k8s.io/v1=false",
        "/v1/events=false",
        "/v1/resourcequotas=false",
    ]
    assert values(found, GENERIC_API_SERVER, "enable-priority-and-fairness") == ["false"]
    off = set(values(found, GENERIC_API_SERVER, "disable-admission-plugins"))
    assert off.issuperset({"ResourceQuota", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy"})
    assert not off & {"NamespaceLifecycle", "ServiceAccount"}
    assert found.controllers == (
        "clusterrole-aggregation-controller",
        "garbage-collector-controller",
        "namespace-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
        "serviceaccount-token-controller",
    )


def test_adding_brings_back_what_follows_from_it():
    found = compose(chosen(MINIMAL, resources_add=("resourcequotas", "*.flowcontrol.apiserver.k8s.io")))
    assert {"resourcequotas", *FLOW_CONTROL} <= set(found.resources)
    assert "resourcequota-controller" in found.controllers
    assert not values(found, GENERIC_API_SERVER, "enable-priority-and-fairness")
    assert "ResourceQuota" not in values(found, GENERIC_API_SERVER, "disable-admission-plugins")


def test_hyper_mini_is_told_the_resources_and_not_how_to_get_there():
    found = compose(chosen(HYPER_MINI, crds=False, aggregation=False))
    assert tuple(values(found, HYPER_MINI, "resources")) == found.resources
    assert not {CRDS, API_SERVICES} & set(found.resources)
    assert values(found, HYPER_MINI, "crds") == values(found, HYPER_MINI, "aggregation") == ["false"]
    assert not values(found, HYPER_MINI, "runtime-config")


def test_the_devices_that_quota_counts_are_left_out_in_the_one_version_that_can():
    def gates(profile: str, version: str) -> list[str]:
        return values(compose(chosen(profile, version=version)), CONTROLLER_MANAGER, "feature-gates")

    assert [gates(GENERIC, version) for version in VERSIONS] == [[], ["DRAExtendedResource=false"], [], []]
    assert gates(MINIMAL, "1.36.4") == gates(FULL, "1.36.4") == []  # nothing counts there, or everything is served


def test_a_plugin_waits_from_its_feature_gate_on():
    """Seen on 1.35.8: with the gate and one of the two resources the API server is never ready."""
    policies = "mutatingadmissionpolicies.admissionregistration.k8s.io"

    def off(*added: str) -> list[str]:
        found = compose(chosen(GENERIC, version="1.35.8", resources_add=added))
        return values(found, GENERIC_API_SERVER, "disable-admission-plugins")

    assert off() == []
    assert off(policies) == ["MutatingAdmissionPolicy"]
    assert off(policies, "mutatingadmissionpolicybindings.admissionregistration.k8s.io") == []


def test_a_controller_gets_the_gate_of_what_it_works_on():
    publisher = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    found = compose(chosen(GENERIC, version="1.35.8", controllers_add=(publisher,)))
    assert publisher in found.controllers
    assert values(found, CONTROLLER_MANAGER, "feature-gates") == ["ClusterTrustBundle=true"]


def test_full_can_do_without_deployments():
    found = compose(chosen(FULL, resources_remove=(DEPLOYMENTS,), controllers_remove=("ttl-controller",)))
    assert found.removed == (DEPLOYMENTS,)
    assert values(found, API_SERVER, "runtime-config") == ["apps/v1/deployments=false"]
    assert values(found, CONTROLLER_MANAGER, "controllers") == [
        "*",
        "-deployment-controller",
        "-disruption-controller",
        "-ttl-controller",
    ]
    assert not {"deployment-controller", "ttl-controller"} & set(found.controllers)
    assert found.left_out == {}


def test_a_scheduler_that_would_wait_for_ever_is_left_out_with_the_reason():
    found = compose(chosen(FULL, resources_remove=("*.policy",)))
    assert "kube-scheduler" not in found.processes
    assert "poddisruptionbudgets.policy" in found.left_out["kube-scheduler"]


def test_every_version_of_a_group_goes():
    found = compose(chosen(FULL, resources_remove=("*.autoscaling",)))
    assert values(found, API_SERVER, "runtime-config") == ["autoscaling/v1=false", "autoscaling/v2=false"]


def test_a_controller_manager_without_controllers_is_left_out():
    found = compose(chosen(MINIMAL, controllers_remove=tuple(GENERIC_CONTROLLERS)))
    assert found.processes == ("etcd", GENERIC_API_SERVER)
    assert CONTROLLER_MANAGER in found.left_out


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (chosen(GENERIC, version="1.34.1"), ["plane-profile-version"]),
        (chosen(FULL, deployment_mode=ALL_IN_ONE), ["plane-profile-shape"]),
        (chosen(HYPER_MINI, deployment_mode=SEPARATE), ["plane-profile-shape"]),
        (chosen(GENERIC, crds=False), ["plane-crds-off"]),
        (chosen(FULL, aggregation=False), ["plane-aggregation-off"]),
        (chosen(GENERIC, etcd=EMBEDDED), ["plane-etcd-embedded"]),
        (chosen(GENERIC, resources_add=("pods", "leases", "*.example.com")), ["plane-resource-unknown"] * 3),
        (
            chosen(GENERIC, resources_add=(LEASES,), resources_remove=("*.coordination.k8s.io",)),
            ["plane-resource-twice"],
        ),
        (chosen(GENERIC, resources_remove=("*.rbac.authorization.k8s.io",)), ["plane-resource-fixed"] * 4),
        (chosen(HYPER_MINI, resources_remove=(CRDS, API_SERVICES)), ["plane-resource-fixed"] * 2),
        (chosen(FULL, resources_remove=("pods",)), ["plane-resource-fixed"]),
        (chosen(FULL, resources_remove=("*.admissionregistration.k8s.io",)), ["plane-resource-fixed"] * 2),
        (chosen(FULL, resources_remove=("*.storage.k8s.io",)), ["plane-resource-fixed"] * 2),
        (chosen(GENERIC, resources_remove=FLOW_CONTROL[:1]), ["plane-resource-pair"]),
        (chosen(MINIMAL, resources_add=FLOW_CONTROL[1:]), ["plane-resource-pair"]),
        (chosen(FULL, resources_remove=("deviceclasses.resource.k8s.io",)), ["plane-resource-pair"]),
        (
            chosen(GENERIC, admission_enable=("Foo",), admission_disable=("JobValidation",)),
            ["plane-admission-unknown"] * 2,
        ),
        (
            chosen(GENERIC, admission_enable=("NamespaceExists",), admission_disable=("NamespaceExists",)),
            ["plane-admission-twice"],
        ),
        (chosen(FULL, admission_enable=("AlwaysDeny", "EventRateLimit")), ["plane-admission-unusable"] * 2),
        (chosen(GENERIC, admission_enable=("NodeRestriction",)), ["plane-admission-needs"]),
        (chosen(MINIMAL, admission_enable=("ResourceQuota",)), ["plane-admission-needs"]),
        (chosen(FULL, admission_disable=("NodeRestriction",)), ["plane-admission-required"]),
        (chosen(GENERIC, controllers_add=("garbagecollector",)), ["plane-controller-unknown"]),
        (
            chosen(GENERIC, controllers_add=("namespace-controller",), controllers_remove=("namespace-controller",)),
            ["plane-controller-twice"],
        ),
        (chosen(GENERIC, controllers_add=("job-controller",)), ["plane-controller-needs"]),
        (chosen(HYPER_MINI, controllers_add=("token-cleaner-controller",)), ["plane-controller-shape"]),
    ],
)
def test_what_cannot_become_ready_is_refused(choice, expected):
    assert ids(choice) == expected
    with pytest.raises(BallastError):
        compose(choice)


def test_every_rule_has_a_refusal_here():
    given_ids = {
        case
        for mark in test_what_cannot_become_ready_is_refused.pytestmark
        for _choice, expected in mark.args[1]
        for case in expected
    }
    assert given_ids == {rule.id for rule in RULES}


def test_all_that_is_wrong_is_said_at_once():
    choice = chosen(
        HYPER_MINI, deployment_mode=SEPARATE, crds=False, resources_remove=("secrets",), admission_enable=("x",)
    )
    with pytest.raises(Problems) as raised:
        compose(choice)
    assert [problem.id for problem in raised.value.problems] == [
        *("plane-profile-shape", "plane-crds-off", "plane-resource-fixed", "plane-admission-unknown")
    ]


def test_device_classes_may_go_alone_where_quota_does_not_count_them():
    """Tried on kube-apiserver: ready in 1.35.8, never in 1.36.4."""
    gone = ("deviceclasses.resource.k8s.io",)
    assert compose(chosen(FULL, version="1.35.8", resources_remove=gone)).removed == gone
    assert ids(chosen(FULL, version="1.36.4", resources_remove=gone)) == ["plane-resource-pair"]


def test_a_later_version_may_have_plugins_and_controllers_that_no_table_has():
    wanted = {"admission_enable": ("NewPlugin",), "controllers_add": ("new-controller",)}
    found = compose(chosen(FULL, version="1.39.0", **wanted))
    assert values(found, API_SERVER, "enable-admission-plugins") == ["NewPlugin"]
    assert values(found, CONTROLLER_MANAGER, "controllers") == ["*", "new-controller"]
    assert ids(chosen(GENERIC, version="1.39.0", **wanted)) == ["plane-admission-unknown", "plane-controller-unknown"]


# Names that are right more often than not, so that many choices can be composed.
_RESOURCES = st.sampled_from(
    sorted(
        {
            *known_resources(FULL, 37),
            *known_resources(FULL, 35),
            "*.apps",
            "*.coordination.k8s.io",
            "*.events.k8s.io",
            "no",
            "*.",
        }
    )
)
_PLUGINS = st.sampled_from(sorted({*plugins(37), *plugins(36), "No"}))
_CONTROLLERS = st.sampled_from(sorted({*CONTROLLERS, "no-controller"}))


def _some(names: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(names, max_size=4).map(tuple)


CHOICES = st.builds(
    Choice,
    profile=st.sampled_from(PROFILES),
    version=st.sampled_from(VERSIONS),
    deployment_mode=st.sampled_from(DEPLOYMENT_MODES),
    crds=st.booleans(),
    aggregation=st.booleans(),
    etcd=st.sampled_from(ETCD_CHOICES),
    resources_add=_some(_RESOURCES),
    resources_remove=_some(_RESOURCES),
    controllers_add=_some(_CONTROLLERS),
    controllers_remove=_some(_CONTROLLERS),
    admission_enable=_some(_PLUGINS),
    admission_disable=_some(_PLUGINS),
)


@st.composite
def possible(draw: st.DrawFn) -> Choice:
    """Choices that were not refused: what is refused of a list is left out."""
    profile = draw(st.sampled_from(PROFILES))
    mode = draw(
        st.sampled_from(DEPLOYMENT_MODES if profile in (GENERIC, MINIMAL) else (default_deployment_mode(profile),))
    )
    choice = chosen(profile, deployment_mode=mode, version=draw(st.sampled_from(VERSIONS)))
    wanted = draw(CHOICES)
    for name in _LISTS:
        for value in getattr(wanted, name):
            more = dataclasses.replace(choice, **{name: (*getattr(choice, name), value)})
            choice = choice if find_problems(more) else more
    return choice


@given(CHOICES)
def test_a_choice_is_refused_with_all_reasons_or_composed(choice):
    found = find_problems(choice)
    assert all(problem.remedy and problem.page for problem in found)
    if found:
        with pytest.raises(BallastError) as raised:
            compose(choice)
        assert getattr(raised.value, "problems", (raised.value,))[0].id == found[0].id
    else:
        assert compose(choice).processes


@given(possible())
def test_everything_that_runs_has_what_it_needs(choice):
    found = compose(choice)
    minor = int(choice.version.split(".")[1])
    if choice.profile == FULL:
        served = (promised_resources(FULL, minor) | set(found.resources)) - set(found.removed)
    else:
        served = set(found.resources)
    server = next(process for process in found.processes if process not in ("etcd", "kube-scheduler"))
    off = set(values(found, server, "disable-admission-plugins"))
    gates = {"", *(gate.partition("=")[0] for gate in values(found, server, "feature-gates"))}
    usual = [plugin for plugin in plugins(minor).values() if plugin.on_by_default(choice.profile)]
    on = {plugin.name for plugin in usual if plugin.gate in gates} - off
    for name in (on | set(choice.admission_enable)) & plugins(minor).keys():
        assert served.issuperset(plugins(minor)[name].needs), name
    for name in found.controllers:
        assert served.issuperset(CONTROLLERS[name]), name
    assert served.issuperset(
        required_resources(choice.profile, minor).keys() & known_resources(choice.profile, minor).keys()
    )
    unfair = values(found, server, "enable-priority-and-fairness") == ["false"]
    assert unfair != served.issuperset(FLOW_CONTROL)
    if "kube-scheduler" in found.processes:
        assert served.issuperset({"pods", "nodes", "replicasets.apps", "poddisruptionbudgets.policy"})


@given(possible())
def test_runtime_config_gives_exactly_what_is_promised(choice):
    """The flags, done to the defaults of the server as it does them, leave the promised set."""
    found = compose(choice)
    server = next(process for process in found.processes if process not in ("etcd", "kube-scheduler"))
    if server == HYPER_MINI:
        assert tuple(values(found, server, "resources")) == found.resources
        return
    known = known_resources(choice.profile, int(choice.version.split(".")[1]))
    said = dict(value.split("=") for value in values(found, server, "runtime-config"))
    on = set()
    for name, serving in known.items():
        for key in serving.keys:
            usual = "true" if serving.by_default else "false"
            if said.get(key, said.get(key.rpartition("/")[0], usual)) == "true":
                on.add(name)
    if choice.profile == FULL:
        assert on == (promised_resources(FULL, int(choice.version.split(".")[1])) | set(found.resources)) - set(
            found.removed
        )
    else:
        assert on == set(found.resources)
    gates = {known[name].gate for name in on} - {""}
    assert gates == {gate.partition("=")[0] for gate in values(found, server, "feature-gates")}


@given(CHOICES, st.randoms(use_true_random=False))
def test_the_order_of_options_does_not_matter(choice, random):
    def answer(of: Choice) -> Any:
        return [str(problem) for problem in find_problems(of)] or compose(of)

    shuffled = {name: tuple(random.sample(getattr(choice, name), len(getattr(choice, name)))) for name in _LISTS}
    again = dataclasses.replace(choice, **shuffled)
    assert answer(choice) == answer(again)
    assert repr(answer(choice)) == repr(answer(dataclasses.replace(choice)))


@given(possible())
def test_every_flag_says_why_in_one_line(choice):
    for flags in compose(choice).flags.values():
        for flag in flags:
            assert len(flag.why.splitlines()) == 1
            assert not set(flag.value) & set(" \n")


def test_the_suggestion_of_trust_bundles_stands_in_the_reason():
    flags = compose(chosen(GENERIC, version="1.36.4")).flags[GENERIC_API_SERVER]
    assert flags[0].why == "profile generic promises it; 1.36.4 does not serve it by default"
    assert TRUST_BUNDLES in flags[1].why
