# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of an untouched kube-proxy give no finding: each version with each setting that changes rules, as `make rules-matrix`
recorded them. And the matrix has every key and every gate there is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.info import trace_and_audit
from ansible_collections.ballast.kube.plugins.module_utils._rules.config_keys import KEYS
from ansible_collections.ballast.kube.plugins.module_utils._rules.gates import NEWEST, OLDEST
from tests.matrix.cells import CHANGES, ELSEWHERE, IPVS, WITHOUT_RULES, cells
from tests.unit.audit.matrix_records import (
    FOLDER,
    IPVS_FOLDER,
    Record,
    Recorded,
    about_rules,
    params_of,
    read,
    versions,
)
from tests.unit.fakes import FakeHost

DUMP = "/root/dump"


@cache
def recorded(version: str, is_ipvs: bool) -> Recorded:
    return read(version, IPVS_FOLDER if is_ipvs else FOLDER)


def all_recorded() -> list[tuple[str, bool]]:
    return [(version, is_ipvs) for is_ipvs in (False, True) for version in versions(IPVS_FOLDER if is_ipvs else FOLDER)]


def names() -> list[tuple[str, str, str]]:
    return [
        (version, record.mode, record.title)
        for version, is_ipvs in all_recorded()
        for record in recorded(version, is_ipvs).records
    ]


def record_of(of: Recorded, mode: str, title: str) -> Record:
    return next(record for record in of.records if (record.mode, record.title) == (mode, title))


@pytest.mark.parametrize(("version", "mode", "title"), names(), ids=lambda value: value)
def test_an_untouched_kube_proxy_gives_no_finding(version: str, mode: str, title: str) -> None:
    of = recorded(version, mode == IPVS)
    record = record_of(of, mode, title)
    host = FakeHost(files={DUMP: record.dump})
    params = params_of(mode.partition("-")[0], record.config, of.snapshot, DUMP)
    assert about_rules(trace_and_audit(host, params)["findings"]) == []


def test_each_version_has_the_cells_of_the_matrix() -> None:
    for version, is_ipvs in all_recorded():
        made = recorded(version, is_ipvs).records
        there = [(record.mode, record.title, record.config) for record in made]
        of_version = cells(int(version.split(".")[1]))
        due = [cell for cell in of_version if (cell.mode == IPVS) is is_ipvs]
        assert there == [(cell.mode, cell.title, cell.config) for cell in due], version


def test_every_key_of_the_configuration_is_in_the_matrix_or_changes_no_rule() -> None:
    every = {
        f"{key}.{inner}" if isinstance(form, Mapping) else key
        for key, form in KEYS.items()
        for inner in (form if isinstance(form, Mapping) else ("",))
    }
    said = {key for change in CHANGES for key in change.keys} | set(WITHOUT_RULES) | set(ELSEWHERE) | {"featureGates"}
    unsaid = {key for key in every if key not in said and key.partition(".")[0] not in said}
    assert unsaid == set()
    assert {key for key in said if key not in every and not any(one.startswith(f"{key}.") for one in every)} == set()


def test_a_cell_is_named_once() -> None:
    for minor in range(OLDEST, NEWEST + 1):
        keys = [(cell.mode, cell.title) for cell in cells(minor)]
        assert len(keys) == len(set(keys))
