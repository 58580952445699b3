# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of checks before a change of kube-proxy into docs/reference/kube-proxy-backends.md, from the rules themselves.

    python -m scripts.preflight_table            # write
    python -m scripts.preflight_table --check    # say whether the page would change; status 1 if so

The table stands between two marks, which are written by hand with the rest of the page:

    <!-- preflight checks: begin -->
    <!-- preflight checks: end -->
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.written import ROOT, between, run

sys.path.insert(0, str(ROOT / ".build" / "collections"))  # made by `make env`

from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import DEPLOYMENTS
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.messages import MESSAGES
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rule import MODES, Rule, Transition
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import RULES

PAGE = ROOT / "docs/reference/kube-proxy-backends.md"
ERRORS = os.path.relpath(ROOT / MESSAGES.page, PAGE.parent)
BEGIN, END = "<!-- preflight checks: begin -->", "<!-- preflight checks: end -->"
_HEAD = """| check | kind | change | kube-proxy | goes by | known from |
|---|---|---|---|---|---|
"""


def as_markdown() -> str:
    """One row for each rule, hard ones first. IDs link to texts and remedies."""
    return _HEAD + "".join(_row(rule) for rule in sorted(RULES, key=lambda rule: (rule.severity, rule.id)))


def _row(rule: Rule) -> str:
    kube_proxy = [str(rule.versions)] + ([f"as a {rule.deployments[0]}"] if rule.deployments != DEPLOYMENTS else [])
    source = rule.source + (" (believed)" if rule.believed else "")
    cells = (
        *(f"[{rule.id}]({ERRORS}#{rule.id})", rule.severity, _change(rule.applies)),
        *(", ".join(kube_proxy), rule.reads, source),
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _change(applies: Transition) -> str:
    """The transition, with the modes for which the check also runs when the mode does not change."""
    modes = [mode for mode in MODES if applies.covers(mode, mode)]
    if not modes:
        return str(applies)
    return f"{applies}, and where the mode stays {'as it is' if len(modes) == len(MODES) else ' or '.join(modes)}"


def files() -> Iterator[tuple[Path, str]]:
    yield PAGE, between(PAGE, BEGIN, END, "\n" + as_markdown())


def main(arguments: list[str]) -> int:
    return run("preflight_table", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
