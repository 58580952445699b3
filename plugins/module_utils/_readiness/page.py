# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a report to what the template of the page needs: values as people read them, where each one came from, and the
measures of its plots. Pure; nothing is decided here.

All text is escaped for HTML here, once. Ansible's template action does not heed jinja2's `autoescape`, and a filter at
each of a hundred places would be forgotten at one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from .amounts import shown
from .drawing import draw

Told = dict[str, Any]


def tell_page(report: Mapping[str, Any]) -> Told:
    """The report with, beside each `how`, the id of its `source`, beside each value the text that is `shown`, and plots
    as they are drawn; `sources` are the texts by id, in the order in which they are met."""
    sources: dict[str, str] = {}
    page: Told = _walked(report, sources)
    return {**page, "sources": [{"id": id, "text": escape(text)} for text, id in sources.items()]}


def _walked(value: Any, sources: dict[str, str]) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Sequence):
        return [_walked(row, sources) for row in value]
    if not isinstance(value, Mapping):
        return value
    if "bars" in value:
        value = draw(value)
    found = {escape(key): _walked(row, sources) for key, row in value.items() if key != "buckets"}
    if value.get("how"):
        found["source"] = sources.setdefault(value["how"], f"how-{len(sources) + 1}")
    if "unit" in value and "value" in value:
        found["shown"] = escape(shown(value["value"], value["unit"]))
        found["limit_shown"] = "" if value["limit"] is None else escape(shown(value["limit"], value["unit"]))
    return found
