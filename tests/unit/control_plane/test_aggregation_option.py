# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option `aggregation`: what it may say, and every problem at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.api_services import (
    LISTED,
    NATIVE_GROUPS,
    OFF,
    ON,
    ApiService,
    parse_aggregation,
    split_address,
)

ENTRY = {
    "name": "v1.wardle.example.com",
    "service": "wardle",
    "namespace": "default",
    "address": "127.0.0.1:8443",
    "ca": "/etc/wardle/ca.crt",
}


def problems(*entries: Any, profile: str = "generic") -> list[tuple[str, str]]:
    return [(error.id, error.text) for error in parse_aggregation(list(entries), profile=profile)[1]]


@pytest.mark.parametrize(
    ("value", "mode"),
    [(True, ON), (False, OFF), ("True", ON), ("off", OFF), ("yes", ON), (" no ", OFF), ([], ON)],
)
def test_it_is_on_or_off(value: Any, mode: str) -> None:
    found, wrong = parse_aggregation(value, profile="full")
    assert (found.mode, found.api_services, wrong) == (mode, (), [])


@pytest.mark.parametrize("value", [None, 1, "maybe", {"name": "v1.a.b"}, 0.5])
def test_it_is_nothing_else(value: Any) -> None:
    assert [error.id for error in parse_aggregation(value, profile="generic")[1]] == ["plane-aggregation-option"]


def test_a_list_is_read_with_its_defaults_in_the_order_of_names() -> None:
    second = {
        **ENTRY,
        "name": "v1beta1.wardle.example.com",
        "port": "8443",
        "address": "[::1]:1",
        "version_priority": 7,
    }
    found, wrong = parse_aggregation([second, ENTRY], profile="generic")
    assert wrong == []
    assert found.mode == LISTED
    assert found.api_services == (
        ApiService(**ENTRY, port=443, group_priority_minimum=1000, version_priority=15),
        ApiService(
            **{**ENTRY, "name": "v1beta1.wardle.example.com", "address": "[::1]:1"}, port=8443, version_priority=7
        ),
    )
    one = found.api_services[0]
    assert (one.version, one.group, one.host) == ("v1", "wardle.example.com", "wardle.default.svc")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "wardle"),
        ("name", "V1.wardle.example.com"),
        ("name", "v1."),
        ("name", "1v.wardle.example.com"),
        ("name", f"v1.{'a.' * 130}b"),
        ("name", "v1.wardle.example.com\n"),
        ("service", "9lives"),
        ("service", "a/b"),
        ("namespace", "Default"),
        ("namespace", "x" * 64),
        ("port", 0),
        ("port", 65536),
        ("port", True),
        ("port", "https"),
        ("address", "localhost:8443"),
        ("address", "127.0.0.1"),
        ("address", "127.0.0.1:0"),
        ("address", "127.0.0.256:1"),
        ("address", "::1:8443"),
        ("address", "[127.0.0.1]:8443"),
        ("address", 8443),
        ("ca", "ca.crt"),
        ("ca", "/etc/../ca.crt"),
        ("ca", "/etc/my ca.crt"),
        ("group_priority_minimum", 0),
        ("group_priority_minimum", 20001),
        ("version_priority", 1001),
        ("version_priority", 1.5),
    ],
)
def test_a_value_that_cannot_be_meant_is_named(key: str, value: Any) -> None:
    ((id, text),) = problems({**ENTRY, key: value})
    assert id == "plane-api-service-value"
    assert text.startswith(f"aggregation[0].{key}: ")


def test_all_problems_are_told_at_once() -> None:
    other = {**ENTRY, "address": "127.0.0.1:9443"}
    found = problems({"name": "v1.apps", "nam": 1}, "v1.a.b", ENTRY, other, profile="full")
    assert [id for id, _text in found] == [
        "plane-aggregation-full",
        "plane-api-service-value",
        "plane-api-service-setting",
        *["plane-api-service-missing"] * 4,
        "plane-api-service-native",
        "plane-api-service-twice",
        "plane-api-service-two-addresses",
    ]


def test_metrics_are_those_of_the_agent_of_a_list() -> None:
    found, wrong = parse_aggregation([ENTRY], profile="generic", metrics="127.0.0.1:9100")
    assert (found.metrics, wrong) == ("127.0.0.1:9100", [])
    for value, metrics, id in (
        ([ENTRY], "0.0.0.0:9100", "plane-aggregation-metrics"),
        (True, "127.0.0.1:9100", "plane-aggregation-metrics-unused"),
        ([], "127.0.0.1:9100", "plane-aggregation-metrics-unused"),
    ):
        assert [error.id for error in parse_aggregation(value, profile="generic", metrics=metrics)[1]] == [id]


@pytest.mark.parametrize("group", sorted(NATIVE_GROUPS))
def test_a_group_of_the_api_server_itself_is_refused(group: str) -> None:
    assert [id for id, _text in problems({**ENTRY, "name": f"v2.{group}"})] == ["plane-api-service-native"]


def test_well_known_extensions_are_not_native() -> None:
    assert problems({**ENTRY, "name": "v1beta1.metrics.k8s.io"}) == []


def test_services_of_one_server_share_an_address() -> None:
    assert problems(ENTRY, {**ENTRY, "name": "v2.wardle.example.com"}) == []
    assert problems(ENTRY, {**ENTRY, "name": "v2.wardle.example.com", "port": 444, "address": "10.0.0.1:1"}) == []


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(sorted(ENTRY)), inner),
    max_leaves=8,
)


@given(_VALUES)
def test_whatever_it_is_there_is_an_answer(value: Any) -> None:
    found, wrong = parse_aggregation(value, profile="generic")
    assert wrong or found.mode in (ON, OFF)


@given(st.dictionaries(st.sampled_from(sorted(ENTRY)), _VALUES, min_size=1, max_size=2))
def test_what_is_accepted_is_what_was_written(changes: dict[str, Any]) -> None:
    found, wrong = parse_aggregation([{**ENTRY, **changes}], profile="generic")
    if not wrong:
        assert split_address(found.api_services[0].address)
        assert found.api_services[0].name == {**ENTRY, **changes}["name"]
