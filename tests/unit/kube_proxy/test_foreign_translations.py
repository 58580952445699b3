# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight says of rules of other programs that take packets to Services, as files of foreign_translations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import Facts, ModeChange
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.foreign_programs import (
    select_translating,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import preflight
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset
from tests.unit.audit import foreign_texts
from tests.unit.audit.foreign_clusters import BACKENDS, CONFIG, LINKS, add_iptables, snapshot

CASES = sorted(Path(__file__).with_name("foreign_translations").glob("*.yml"))
SNAPSHOT = snapshot()
VIEW = SNAPSHOT.view(4)


def node(case: Mapping[str, Any], from_mode: str, to_mode: str) -> Facts:
    before, after = (
        {4: parse_config(CONFIG, backend=mode, family=4, node=VIEW.node).rules} if mode else {}
        for mode in (from_mode, to_mode)
    )
    tables = Tables(4)
    if from_mode in ("iptables", "ipvs"):
        own = BACKENDS[from_mode].compile(VIEW, before[4])
        tables = own.tables if isinstance(own, IpvsRules) else own
    tables = add_iptables(tables, case.get("iptables", ""), 4, above=case.get("above", True))
    rulesets = {("nft", 4): tables}
    if "legacy" in case:
        rulesets["legacy", 4] = foreign_texts.iptables(case["legacy"])
    ruleset = foreign_texts.nftables(case["nftables"]) if "nftables" in case else Ruleset()
    return Facts(
        ModeChange(from_mode, to_mode, CONFIG, CONFIG, kube_proxy_version="v1.36.4", node_name="n1"),
        views={4: VIEW},
        before=before,
        after=after,
        links=LINKS,
        foreign=select_translating(ruleset, rulesets),
    )


def changes(path: Path) -> list[tuple[str, str]]:
    return [tuple(key.split(" to ")) for key in yaml.safe_load(path.read_text())["finds"]]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("path", "from_mode", "to_mode"),
    [(path, *change) for path in CASES for change in changes(path)],
    ids=lambda value: getattr(value, "stem", value),
)
def test_a_preflight_tells_what_takes_packets_to_services(path: Path, from_mode: str, to_mode: str) -> None:
    case = yaml.safe_load(path.read_text())
    expected = case["finds"][f"{from_mode} to {to_mode}"]
    mode = "" if from_mode == "nothing" else from_mode
    found = {one.id: one for one in preflight(node(case, mode, to_mode)) if one.id.startswith("preflight-foreign-nat")}
    assert sorted(found) == sorted(expected), (case["why"], [one.line for one in found.values()])
    for id, parts in expected.items():
        assert [part for part in parts if part not in found[id].line] == [], found[id].line
        assert found[id].severity == ("hard" if id.endswith("changes") else "soft")


def test_the_cases_are_sourced() -> None:
    log = CASES[0].with_name("SOURCES.md").read_text()
    assert [path.stem for path in CASES if f"`{path.name}`" not in log] == []
