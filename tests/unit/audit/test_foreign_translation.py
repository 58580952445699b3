# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of other programs that take packets to Services, as files of foreign_translation: the rules, what an audit finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._audit.audit import AuditInput, Facts, audit
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset
from tests.unit.audit import foreign_texts
from tests.unit.audit.foreign_clusters import BACKENDS, CONFIG, LINKS, add_iptables, snapshot, surroundings

CASES = sorted(Path(__file__).with_name("foreign_translation").glob("*.yml"))
SNAPSHOT = snapshot()


def findings(case: Mapping[str, Any], mode: str) -> list[Any]:
    """Of rules without a fault of their own."""
    backend = BACKENDS[mode]
    family = case.get("family", 4)
    node = SNAPSHOT.view(family).node
    config = parse_config(CONFIG, backend=mode, family=family, node=node)
    rules = backend.compile(SNAPSHOT.view(family), config.rules)
    if isinstance(rules, IpvsRules):
        rules = replace(rules, links=LINKS)
    texts = dict(case.get("iptables", {}))
    in_use = getattr(backend, "variant", "")
    if in_use in texts:
        rules = add_iptables(rules, texts.pop(in_use), family, above=case.get("above", True))
    facts = Facts(
        ruleset=foreign_texts.nftables(case.get("nftables", "")) if "nftables" in case else Ruleset(),
        iptables={(variant, family): foreign_texts.iptables(text, family) for variant, text in texts.items()},
    )
    around = surroundings(case.get("links", {}))
    return audit(AuditInput(SNAPSHOT, {family: config}, backend, {family: rules}, around, owner="ballast"), facts)


@pytest.mark.parametrize(
    ("path", "mode"),
    [(path, mode) for path in CASES for mode in yaml.safe_load(path.read_text())["modes"]],
    ids=lambda value: getattr(value, "stem", value),
)
def test_what_takes_packets_to_services_is_found(path: Path, mode: str) -> None:
    case = yaml.safe_load(path.read_text())
    found = findings(case, mode)
    expected = case["finds"]
    assert [one.id for one in found] == [row["id"] for row in expected], (case["why"], found)
    for one, row in zip(found, expected):
        shown = f"{one.service or '-'} | {one.expected} | {one.found} | {one.remedy}"
        assert [part for part in row["says"] if part not in shown] == [], shown
        assert [part for part in row.get("not", ()) if part in shown] == []


def test_the_cases_are_sourced() -> None:
    log = CASES[0].with_name("SOURCES.md").read_text()
    assert [path.stem for path in CASES if f"`{path.name}`" not in log] == []


def test_a_rule_is_not_blamed_for_what_the_rules_of_services_lack() -> None:
    """The Service has no rules, and an accept that meets none of its packets stands above them."""
    text = "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m mark --mark 0x77 -j ACCEPT\nCOMMIT\n"
    backend = BACKENDS["iptables"]
    view = SNAPSHOT.view(4)
    config = parse_config(CONFIG, backend="iptables", family=4, node=view.node)
    fewer = replace(view, frontends=tuple(end for end in view.frontends if end.service.name != "web"))
    rules = add_iptables(backend.compile(fewer, config.rules), text, 4, above=True)
    given = AuditInput(SNAPSHOT, {4: config}, backend, {4: rules}, surroundings({}), owner="ballast")
    assert [(one.id, one.service) for one in audit(given, Facts())] == [("rules-audit-missing", "default/web:http")]
