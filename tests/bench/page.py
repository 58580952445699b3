# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a benchmark writes what it found: its results file, and a page between the marks of its name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.written import between


def write_results(path: Path, found: Mapping[str, Any]) -> None:
    """Lists of figures on one line each: there are thousands in some."""
    text = re.sub(r"\[[\d\s,.e-]+\]", lambda one: re.sub(r"\s+", "", one[0]), json.dumps(found, indent=1))
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def write_between_marks(page: Path, name: str, text: str) -> None:
    """`<!-- bench:NAME begin -->` and `end`, each on a line of its own."""
    first, last = (f"<!-- bench:{name} {which} -->" for which in ("begin", "end"))
    page.write_text(between(page, first, last, text), encoding="utf-8")
