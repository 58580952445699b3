# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a report to what the template of the page needs besides: values as people read them, where each one came from,
and the measures of its plots. Pure; nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .amounts import shown
from .drawing import draw

Told = dict[str, Any]


def tell_page(report: Mapping[str, Any]) -> Told:
    """The report with, beside each `how`, the id of its `source`, beside each value the text that is `shown`, and plots
    as they are drawn; `sources` are the texts by id, in the order in which they are met."""
    sources: dict[str, str] = {}
    page = _walked(report, sources)
    return {**page, "sources": [{"id": id, "text": text} for text, id in sources.items()]}


def _walked(value: Any, sources: dict[str, str]) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_walked(row, sources) for row in value]
    if not isinstance(value, Mapping):
        return value
    if "bars" in value:
        value = draw(value)
    found = {key: _walked(row, sources) for key, row in value.items() if key != "buckets"}
    if found.get("how"):
        found["source"] = sources.setdefault(found["how"], f"how-{len(sources) + 1}")
    if "unit" in found and "value" in found:
        found["shown"] = shown(found["value"], found["unit"])
        found["limit_shown"] = "" if found["limit"] is None else shown(found["limit"], found["unit"])
    return found
