# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns a report into what the page's template needs: formatted values, the source of each, and the layout of the plots. Pure;
nothing is judged here.

All text is escaped for HTML here, once. Ansible's template action ignores jinja2's `autoescape`, and with a filter in each of a
hundred places, one would be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from .._core.text.redaction import redact_json
from .amounts import show_amount
from .drawing import draw

Json = dict[str, Any]


def make_page(report: Mapping[str, Any]) -> Json:
    """The report, with the id of its `source` beside each `how`, the `shown` text beside each value, and laid out plots; `sources` are
    the texts by id, in the order of their first use."""
    sources: dict[str, str] = {}
    # Redact before escaping: afterwards a quote is no longer a quote, and what is between two of them would not be recognized.
    page: Json = _escape(redact_json(report), sources)
    return {**page, "sources": [{"id": id, "text": escape(text)} for text, id in sources.items()]}


def _escape(value: Any, sources: dict[str, str]) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Sequence):
        return [_escape(row, sources) for row in value]
    if not isinstance(value, Mapping):
        return value
    if "bars" in value:
        value = draw(value)
    escaped = {escape(key): _escape(row, sources) for key, row in value.items() if key != "buckets"}
    if value.get("how"):
        escaped["source"] = sources.setdefault(value["how"], f"how-{len(sources) + 1}")
    if "unit" in value and "value" in value:
        escaped["shown"] = escape(show_amount(value["value"], value["unit"]))
        escaped["limit_shown"] = "" if value["limit"] is None else escape(show_amount(value["limit"], value["unit"]))
    return escaped
