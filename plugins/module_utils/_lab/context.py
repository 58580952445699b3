# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab as a context of the user's own kubeconfig.

Cluster, user and context are named after the lab, with the prefix `ballast-`. An extension of the context names the lab's
directory: an entry without it belongs to somebody else, and is neither changed nor removed.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.engine import BaseEngine
from .._core.engine.plan import ABSENT, Plan, Policy, Step, Value
from .._core.engine.plan_report import plan_diff, steps_as_result
from .._core.host.names import join_name
from .._core.text.document import format_document, parse_document
from .cluster import KUBECONFIG
from .messages import MESSAGES

_HOME = "~/.kube/config"
_EXTENSION = "ballast.kube/lab"
_CURRENT = "current-context"
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_EMPTY = {"apiVersion": "v1", "kind": "Config"}

SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "name": {"type": "str", "required": True},
    "lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"},
    "kubeconfig": {"type": "str", "no_log": True},
    "path": {"type": "path"},
}

Document = dict[str, Any]


@dataclass(frozen=True)
class ContextRequest:
    path: str  # of the user's kubeconfig
    lab_dir: str
    name: str  # of cluster, user and context
    source: Optional[Document]  # the lab's own kubeconfig; None to remove the context


@dataclass(frozen=True)
class ContextState:
    text: str  # "" where there is no file
    document: Document


def desired_from_params(params: Mapping[str, Any]) -> ContextRequest:
    """The file is `path`, else the first of $KUBECONFIG, else ~/.kube/config. UserError for the lab's own kubeconfig."""
    lab_dir = params["lab_dir"].rstrip("/")
    # As kubectl reads it: KUBECONFIG=$KUBECONFIG:FILE begins with an empty entry where there was none.
    files = filter(None, (os.environ.get("KUBECONFIG") or "").split(os.pathsep))
    path = params["path"] or next(files, _HOME)
    path = os.path.abspath(os.path.expanduser(path))
    source = None
    if params["state"] == "present":
        if path == os.path.join(lab_dir, KUBECONFIG):
            raise MESSAGES.error("lab-context-own", path=path)
        source = _mapping(parse_document(params["kubeconfig"] or "", name=KUBECONFIG), KUBECONFIG)
    return ContextRequest(path, lab_dir, join_name(params["name"]), source)


class ContextEngine(BaseEngine[ContextRequest, ContextState, Plan]):
    """Has no journal: its entries mark themselves, in a file that others write too."""

    def observe(self, ctx: Context[ContextRequest]) -> ContextState:
        path = ctx.desired.path
        text = (ctx.host.read(path) or b"").decode()
        return ContextState(text, _mapping(parse_document(text, name=path) if text.strip() else _EMPTY, path))

    def plan(self, desired: ContextRequest, state: ContextState) -> Plan:
        before = _value(state.document, desired.name)
        if before != ABSENT and not _is_ours(state.document, desired):
            if desired.source is not None:
                raise MESSAGES.error("lab-context-taken", name=desired.name, path=desired.path)
            before = ABSENT
        after = _value(_with_lab(state.document, desired), desired.name) if desired.source is not None else ABSENT
        title = f"context {desired.name} in {desired.path}"
        steps = () if before == after else (Step("context", title, desired.path, after=after, before=before),)
        return Plan(steps=steps, policy=Policy.KEEP)

    def as_result(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_as_result(plan)}

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        """The diff has digests instead of keys and certificates."""
        return plan_diff(plan)

    def apply(self, plan: Plan, ctx: Context[ContextRequest]) -> Plan:
        state = self.observe(ctx)
        plan = self.plan(ctx.desired, state)
        if plan.steps:
            change = _without_lab if ctx.desired.source is None else _with_lab
            document = change(state.document, ctx.desired)
            data = format_document(document, like=state.text).encode()
            if state.text:
                ctx.host.replace(ctx.desired.path, data)
            else:
                ctx.host.make_directory(os.path.dirname(ctx.desired.path))
                ctx.host.write(ctx.desired.path, data, mode=0o600)
        return plan

    def preview(self, ctx: Context[ContextRequest]) -> dict[str, object]:
        desired = ctx.desired
        is_current = (self.observe(ctx).document.get(_CURRENT) or "") == desired.name
        return {
            "path": desired.path,
            "context": desired.name,
            "is_current": is_current,
            "ballast_summary": _summary(desired, is_current=is_current),
        }


ENGINE = ContextEngine()


def _value(document: Document, name: str) -> Value:
    """The server and a digest of the three entries; ABSENT when there are none."""
    entries = {section: _entry(document, section, name) for section in _SECTIONS}
    if not any(entries.values()):
        return ABSENT
    server = ((entries["clusters"] or {}).get("cluster") or {}).get("server", "")
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
    return {"server": str(server), "digest": digest[:16]}


def _is_ours(document: Document, desired: ContextRequest) -> bool:
    context = (_entry(document, "contexts", desired.name) or {}).get("context") or {}
    return _extension(desired) in (context.get("extensions") or [])


def _extension(desired: ContextRequest) -> Document:
    return {"name": _EXTENSION, "extension": {"lab_dir": desired.lab_dir}}


def _with_lab(document: Document, desired: ContextRequest) -> Document:
    """The document with the lab's entries. The context becomes the current one only if there is none."""
    source = desired.source or {}
    extensions = [_extension(desired)]
    context = {"cluster": desired.name, "user": desired.name, "extensions": extensions}
    parts = {"clusters": _first(source, "clusters"), "users": _first(source, "users"), "contexts": context}
    changed = copy.deepcopy(document)
    for section, part in parts.items():
        entry = {"name": desired.name, _SECTIONS[section]: part}
        rows = changed.get(section) or []
        at = next((number for number, row in enumerate(rows) if row.get("name") == desired.name), len(rows))
        changed[section] = [*rows[:at], entry, *rows[at + 1 :]]
    changed[_CURRENT] = changed.get(_CURRENT) or desired.name
    return changed


def _without_lab(document: Document, desired: ContextRequest) -> Document:
    changed = copy.deepcopy(document)
    for section in _SECTIONS:
        if changed.get(section):
            changed[section] = [row for row in changed[section] if row.get("name") != desired.name]
    if changed.get(_CURRENT) == desired.name:
        changed[_CURRENT] = ""
    return changed


def _first(source: Document, section: str) -> Any:
    return source[section][0][_SECTIONS[section]]


def _entry(document: Document, section: str, name: str) -> Optional[Document]:
    return next((row for row in document.get(section) or [] if row.get("name") == name), None)


def _mapping(document: object, name: str) -> Document:
    """The document; UserError if it is no kubeconfig."""
    if not isinstance(document, dict) or not isinstance(document.get(_CURRENT) or "", str):
        raise MESSAGES.error("lab-context-form", path=name)
    for section in _SECTIONS:
        rows = document.get(section) or []
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise MESSAGES.error("lab-context-form", path=name)
    return document


def _summary(desired: ContextRequest, *, is_current: bool) -> str:
    if desired.source is None:
        return f"{desired.path} has no context {desired.name} of this lab"
    use = [
        f"use it:      kubectl --context {desired.name} get nodes",
        f"or from now: kubectl config use-context {desired.name}",
    ]
    current = f"{desired.path} has the context {desired.name}, the current one"
    return current if is_current else "\n".join([f"{desired.path} has the context {desired.name}", *use])
