"""What programs say of themselves, and what is asked of them beyond it."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profiles import (
    CONTROLLER_MANAGER,
    GENERIC,
    GENERIC_API_SERVER,
    MINIMAL,
    compose,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.programs import (
    find_missing_features,
    parse_help,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.control_plane.test_profiles import chosen

# Lines of generic-apiserver and kube-controller-manager 1.36.4, with shorter lists.
API_SERVER_HELP = """\
Usage:
  sample-generic-apiserver [flags]

Generic flags:

      --cors-allowed-origins strings   List of allowed origins for CORS, comma separated. See --allow-origin.
      --enable-priority-and-fairness   If true, replace the max-in-flight handler with an enhanced one (default true)
      --feature-gates colonSeparatedMultimapStringString   Comma-separated list of component:key=value pairs
                                       If the component is not specified, defaults to "kube".Options are:
                                       kube:ClusterTrustBundle=true|false (BETA - default=false)
                                       kube:DRAExtendedResource=true|false (BETA - default=true)

API enablement flags:

      --runtime-config mapStringString   A set of key=value pairs that enable or disable built-in APIs.

Admission flags:

      --disable-admission-plugins strings   admission plugins that should be disabled (NamespaceLifecycle, \
ResourceQuota). Comma-delimited list of admission plugins: AlwaysDeny, ResourceQuota. The order does not matter.
      --enable-admission-plugins strings    admission plugins that should be enabled (NamespaceLifecycle). \
Comma-delimited list of admission plugins: NamespaceLifecycle, ResourceQuota. The order of plugins does not matter.

Global flags:

  -h, --help                   help for sample-generic-apiserver
"""
CONTROLLER_MANAGER_HELP = """\
      --controllers strings    A list of controllers to enable. '*' enables all, '-foo' disables the one named 'foo'.
                               All controllers: bootstrap-signer-controller, namespace-controller
                               Disabled-by-default controllers: bootstrap-signer-controller (default [*])
"""


def api_server(text: str = API_SERVER_HELP):
    return parse_help(text, program=GENERIC_API_SERVER, version="1.36.4")


def controller_manager(text: str = CONTROLLER_MANAGER_HELP):
    return parse_help(text, program=CONTROLLER_MANAGER, version="1.36.4")


def test_help_of_an_api_server():
    found = api_server()
    assert found.options == {
        "cors-allowed-origins",
        "enable-priority-and-fairness",
        "feature-gates",
        "runtime-config",
        "disable-admission-plugins",
        "enable-admission-plugins",
        "help",
    }
    assert found.admission_plugins == {"NamespaceLifecycle", "ResourceQuota"}
    assert found.feature_gates == {"ClusterTrustBundle", "DRAExtendedResource"}
    assert found.controllers == frozenset()


def test_help_of_the_controller_manager():
    found = controller_manager()
    assert found.controllers == {"bootstrap-signer-controller", "namespace-controller"}
    assert found.admission_plugins == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bash: --help: no such thing\n",
        API_SERVER_HELP.replace("Comma-delimited", "Space-delimited"),
        API_SERVER_HELP.replace("=true|false", ""),
        API_SERVER_HELP + " " * (1 << 20),
    ],
)
def test_a_text_that_does_not_say_it_is_refused(text):
    with pytest.raises(BallastError) as raised:
        api_server(text)
    assert raised.value.id == "plane-help-unreadable"
    assert raised.value.found


def test_help_of_hyper_mini():
    text = "      --controllers strings   Controllers to run: names, * for all, -NAME. Known: a-controller, b (default [*])\n"
    assert controller_manager(text).controllers == {"a-controller", "b"}


def test_a_list_of_controllers_that_cannot_be_read_is_refused():
    with pytest.raises(BallastError):
        controller_manager(CONTROLLER_MANAGER_HELP.replace("All controllers", "Some"))


@given(st.lists(st.sampled_from([*API_SERVER_HELP.split("\n"), *CONTROLLER_MANAGER_HELP.split(" "), "\n", "  ", "--"])))
def test_any_text_is_read_or_refused(parts):
    with contextlib.suppress(BallastError):
        assert api_server("\n".join(parts)).options


@pytest.mark.parametrize(
    "part",
    [
        " ",
        "a",
        "- ",
        "  --a ",
        "kube:a=true|false (",
        "All controllers: ",
        "Known: a",
        "a, ",
        "Known: a (default ",
        "\n ",
    ],
)
def test_a_long_text_takes_no_long_time(part):
    started = time.process_time()
    with pytest.raises(BallastError):
        api_server(part * (1 << 20))
    assert time.process_time() - started < 20


def test_what_a_program_does_not_have_is_said_with_the_reason():
    composition = compose(chosen(MINIMAL, version="1.36.4"))
    programs = {GENERIC_API_SERVER: api_server(), CONTROLLER_MANAGER: controller_manager()}
    told = [problem.text for problem in find_missing_features(composition.flags, "1.36.4", programs)]
    assert "generic-apiserver 1.36.4 has no admission plugin ValidatingAdmissionWebhook" in told
    assert "kube-controller-manager 1.36.4 has no controller garbage-collector-controller" in told
    assert not any("ResourceQuota" in text or "namespace-controller" in text for text in told)


def test_options_and_gates_that_are_gone_are_said():
    composition = compose(chosen(GENERIC, version="1.36.4"))
    without = api_server(API_SERVER_HELP.replace("kube:ClusterTrustBundle", "kube:Other").replace("--runtime-", "--"))
    found = find_missing_features(composition.flags, "1.36.4", {GENERIC_API_SERVER: without})
    assert [problem.text.rpartition(" has no ")[2] for problem in found] == [
        "option --runtime-config",
        "feature gate ClusterTrustBundle",
    ]


def test_a_program_that_has_everything_is_passed_over_in_silence():
    composition = compose(chosen(GENERIC, version="1.36.4"))
    assert find_missing_features(composition.flags, "1.36.4", {GENERIC_API_SERVER: api_server()}) == []
