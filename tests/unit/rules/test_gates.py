# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds of every gate in every version. Cases: tests/unit/audit/cases/configuration."""

from __future__ import annotations

from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.gates import (
    GATES,
    NEWEST,
    OLDEST,
    WITHOUT_RULES,
    Release,
    parse_minor,
)

VERSIONS = range(OLDEST, NEWEST + 1)


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        ("v1.36.4", 36),
        ("1.29.0", 29),
        ("v1.30.4+k3s1", 30),
        ("v1.29.3-eks-adc7111", 29),
        ("v1.37.0-rc.1", 37),
        ("v1.31", 31),
        ("v2.1.0", None),
        ("", None),
        ("v1.x", None),
        (None, None),
        (36, None),
    ],
)
def test_the_minor_version_of_a_kubelet(version: object, minor: Optional[int]) -> None:
    assert parse_minor(version) == minor


@pytest.mark.parametrize("name", GATES)
def test_stages_follow_one_another_and_none_follows_a_locked_one(name: str) -> None:
    stages = GATES[name].stages
    assert [stage.since for stage in stages] == sorted({stage.since for stage in stages})
    assert not any(stage.locked for stage in stages[:-1])
    assert name not in WITHOUT_RULES


@pytest.mark.parametrize("minor", VERSIONS)
@pytest.mark.parametrize("name", GATES)
def test_a_gate_that_is_set_counts_where_kube_proxy_takes_it_and_is_told_elsewhere(name: str, minor: int) -> None:
    usual = Release(minor).is_on(name)
    changed = Release(minor, {name: not usual})
    told = [warning.id for warning in changed.warnings("iptables")]
    assert changed.is_on(name) == (usual if told else not usual)
    assert told in ([], ["rules-config-gate-refused"])
    assert list(Release(minor, {name: usual}).warnings("iptables")) == [] or GATES[name].stage(minor) is None


@pytest.mark.parametrize("name", GATES)
def test_versions_beyond_those_known_are_as_the_nearest(name: str) -> None:
    assert Release(20).is_on(name) == Release(OLDEST).is_on(name)
    assert Release(99).is_on(name) == Release(NEWEST).is_on(name) == Release(None).is_on(name)


def test_a_gate_counts_before_the_one_of_its_stage() -> None:
    assert Release(33, {"AllAlpha": True}).is_on("PreferSameTrafficDistribution")
    assert not Release(33, {"AllAlpha": True, "PreferSameTrafficDistribution": False}).is_on(
        "PreferSameTrafficDistribution"
    )
    assert not Release(33, {"AllBeta": True}).is_on("PreferSameTrafficDistribution")


def test_gates_without_rules_are_not_told() -> None:
    given = {**dict.fromkeys(WITHOUT_RULES, True), "AllAlpha": False, "AllBeta": True}
    assert list(Release(36, given).warnings("nftables")) == []


def test_an_unknown_gate_is_named_with_the_nearest_that_is_known() -> None:
    (warning,) = Release(36, {"AllowServiceExternalIP": False}).warnings("nftables")
    assert (warning.id, "AllowServiceExternalIPs" in warning.remedy) == ("rules-config-gate-unknown", True)
