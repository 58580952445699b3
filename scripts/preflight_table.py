# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of checks before a change of kube-proxy into docs/kube-proxy-backends.md, from the rules themselves.

    scripts/preflight_table.py            # write
    scripts/preflight_table.py --check    # say whether the page would change; status 1 if so

The table stands between two marks, which are written by hand with the rest of the page:

    <!-- preflight checks: begin -->
    <!-- preflight checks: end -->
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".build" / "collections"))  # `make env` lays it out

from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration.preflight.facts import (  # noqa: E402
    DEPLOYMENTS,
)
from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration.preflight.messages import (  # noqa: E402
    MESSAGES,
)
from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration.preflight.rule import Rule  # noqa: E402
from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration.preflight.rules import RULES  # noqa: E402

PAGE = ROOT / MESSAGES.page
BEGIN, END = "<!-- preflight checks: begin -->", "<!-- preflight checks: end -->"
_HEAD = """| check | kind | change | kube-proxy | goes by | known from |
|---|---|---|---|---|---|
"""


def as_markdown() -> str:
    """One row for each rule, hard ones first. Texts and remedies are in the page's section of errors, which ids lead to."""
    return _HEAD + "".join(_row(rule) for rule in sorted(RULES, key=lambda one: (one.severity, one.id)))


def _row(rule: Rule) -> str:
    change = str(rule.applies) + (", or a mode that stays" if rule.applies.unchanged else "")
    kube_proxy = [str(rule.versions)] + ([f"as a {rule.deployments[0]}"] if rule.deployments != DEPLOYMENTS else [])
    source = rule.source + (" (believed)" if rule.believed else "")
    cells = (f"[{rule.id}](#{rule.id})", rule.severity, change, ", ".join(kube_proxy), rule.reads, source)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def rewritten(page: str) -> str:
    """`page` with the table between its marks. ValueError where it has not one of each, in their order."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"{MESSAGES.page} needs these two lines, once each: {BEGIN} and {END}")
    above, _begin, rest = page.partition(BEGIN)
    return f"{above}{BEGIN}\n\n{as_markdown()}\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    try:
        wanted = rewritten(page)
    except ValueError as error:
        sys.exit(str(error))
    if page == wanted:
        return 0
    if arguments:
        print(f" ✗ {MESSAGES.page} differs from its table; run scripts/preflight_table.py")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    print(f" ✓ {MESSAGES.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
