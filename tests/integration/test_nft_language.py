# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The installed nft is the judge of what we read and write: rules are loaded in a network namespace of our own.

`BALLAST_WRITE_DUMPS=1 pytest tests/integration/test_nft_language.py` lists the rules of tests/unit/rules/nftables/dumps anew,
for the unit tests.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import Unknown
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.json_form import parse_json
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.render import render_ruleset
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from tests.integration import journal

DUMPS = Path(__file__).parents[1] / "unit" / "rules" / "nftables" / "dumps"
SOURCES = sorted(DUMPS.glob("*.nft"))
NAMESPACE = f"ballast-test-nft-{os.getpid()}"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")


@pytest.fixture
def namespace() -> Iterator[str]:
    with journal.network_namespace(NAMESPACE):
        subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
        yield NAMESPACE


def nft(namespace: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, "nft", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_text_and_json_of_the_kernel_are_the_dumps_of_the_unit_tests(namespace: str, source: Path) -> None:
    nft(namespace, "-f", str(source))
    text, form = nft(namespace, "list", "ruleset"), nft(namespace, "-j", "list", "ruleset")
    if os.environ.get("BALLAST_WRITE_DUMPS"):
        source.with_suffix(".txt").write_text(text)
        # Handles and versions differ from one kernel to the next.
        source.with_suffix(".json").write_text(re.sub(r', "handle": \d+', "", form))
    assert parse_text(text) == parse_text(source.with_suffix(".txt").read_text())
    assert parse_json(form) == parse_json(source.with_suffix(".json").read_text())
    assert parse_text(nft(namespace, "-a", "list", "ruleset")) == parse_text(text)


def has_unknown(ruleset: Ruleset) -> bool:
    return any(
        isinstance(statement, Unknown)
        for table in ruleset.tables.values()
        for chain in table.chains.values()
        for rule in chain.rules
        for statement in rule.statements
    )


UNDERSTOOD = [source for source in SOURCES if not has_unknown(parse_text(source.with_suffix(".txt").read_text()))]


@pytest.mark.parametrize("source", UNDERSTOOD, ids=lambda path: path.stem)
def test_the_kernel_takes_what_we_render_and_holds_the_same(namespace: str, source: Path) -> None:
    found = parse_text(source.with_suffix(".txt").read_text())
    nft(namespace, "-f", "-", stdin=render_ruleset(found))
    assert parse_text(nft(namespace, "list", "ruleset")) == found
    assert parse_json(nft(namespace, "-j", "list", "ruleset")) == found
