# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the alerts of the rule file into docs/metrics.md, between its marks.

    python -m scripts.alert_page            # write
    python -m scripts.alert_page --check    # status 1 if the page would change

What stands around the marks is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scripts.written import ROOT, between, run

RULES = ROOT / "roles/readiness/files/ballast-rules.yml"
PAGE = ROOT / "docs/metrics.md"
BEGIN, END = "<!-- alerts begin -->", "<!-- alerts end -->"
_FIELD = re.compile(r"\{\{ \$(?:labels\.)?(\w+)(?: \| \w+)? \}\}")


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def shown(template: str) -> str:
    """A template as a reader sees it: `{{ $labels.node }}` is NODE."""
    return _FIELD.sub(lambda match: match[1].upper(), template)


def entry(alert: dict[str, Any]) -> str:
    notes = alert["annotations"]
    return f"""### {alert["alert"]}

{shown(notes["summary"])} (`{alert["labels"]["severity"]}`, after {alert["for"]})

```promql
{alert["expr"].strip()}
```

Do: {shown(notes["remedy"])}
"""


def files() -> Iterator[tuple[Path, str]]:
    yield PAGE, between(PAGE, BEGIN, END, "\n" + "\n".join(entry(alert) for alert in alerts()))


def main(arguments: list[str]) -> int:
    return run("alert_page", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
