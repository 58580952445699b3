# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the alerts of the rule file into docs/metrics.md, between its marks.

    scripts/alert_page.py            # write
    scripts/alert_page.py --check    # status 1 if the page would change

What stands around the marks is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "roles/readiness/files/ballast-rules.yml"
PAGE = ROOT / "docs/metrics.md"
BEGIN, END = "<!-- alerts begin -->\n", "<!-- alerts end -->\n"
_FIELD = re.compile(r"\{\{ \$(?:labels\.)?(\w+)(?: \| \w+)? \}\}")


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def shown(template: str) -> str:
    """As a reader sees it: `{{ $labels.node }}` is NODE."""
    return _FIELD.sub(lambda found: found[1].upper(), template)


def entry(alert: dict[str, Any]) -> str:
    notes = alert["annotations"]
    return f"""### {alert["alert"]}

{shown(notes["summary"])} (`{alert["labels"]["severity"]}`, after {alert["for"]})

```promql
{alert["expr"].strip()}
```

Do: {shown(notes["remedy"])}
"""


def rewritten(page: str) -> str:
    above, _begin, rest = page.partition(BEGIN)
    _old, end, below = rest.partition(END)
    if not end:
        sys.exit(f"alert_page: {PAGE} lacks its marks {BEGIN.strip()} and {END.strip()}")
    return above + BEGIN + "\n" + "\n".join(entry(alert) for alert in alerts()) + "\n" + END + below


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    page = PAGE.read_text(encoding="utf-8")
    wanted = rewritten(page)
    if arguments:
        if page != wanted:
            print(f" ✗ {PAGE.name} differs from {RULES.name}; run scripts/alert_page.py")
        return int(page != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
