# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a report to what the template of the page needs: values as people read them, where each one came from, and the
measures of its plots. Pure; nothing is decided here.

All text is escaped for HTML here, once. Ansible's template action ignores jinja2's `autoescape`, and a filter at
each of a hundred places would be forgotten at one.
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
    """The report with, beside each `how`, the id of its `source`, beside each value the text that is `shown`, and plots
    as they are drawn; `sources` are the texts by id, in the order in which they are met."""
    sources: dict[str, str] = {}
    # Before it is escaped: then a quote is no quote any more, and what is between two of them is not seen.
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
