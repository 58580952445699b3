# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A feature of two files in a directory of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._ansible import run as loop
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import Finding, ResourceEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import PROGRESS_LOG
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import from_options
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import BASE_KINDS, Kind, directory, file
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Resource, State
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError, Problems, UserError

SPEC = {
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "content": {"type": "str", "default": "one"},
    "key": {"type": "str", "default": "secret", "no_log": True},
    "mood": {"type": "str", "default": ""},
}


@dataclass(frozen=True)
class Wanted:
    state_dir: str
    place: str
    content: str
    key: str
    present: bool


def desired(params: Mapping[str, Any]) -> Wanted:
    if params["mood"] == "wrong":
        raise Problems([UserError("content: bad", id="toy-one", remedy="good"), UserError("key: bad", id="toy-two")])
    place = os.path.join(os.path.dirname(params["state_dir"]), "made")
    return Wanted(params["state_dir"], place, params["content"], params["key"], params["state"] == "present")


class Toy(ResourceEngine[Wanted]):
    name = "toy"
    kinds: Mapping[str, Kind] = BASE_KINDS
    mood = ""
    during: Optional[Callable[[], None]] = None

    def wanted(self, ctx: Context[Wanted]) -> list[Resource]:
        desired = ctx.desired
        if not desired.present:
            return []
        return [
            directory(desired.place, group="node n1"),
            file(f"{desired.place}/a", desired.content, group="node n1"),
            file(f"{desired.place}/b.key", desired.key, mode=0o600, group="node n1"),
        ]

    def require(self, ctx: Context[Wanted], state: State) -> None:
        if self.mood == "lacking":
            raise HostError("no such tool", id="toy-lacks", found="nothing", remedy="install it")

    def verify(self, ctx: Context[Wanted]) -> list[Finding]:
        if self.during is not None:
            self.during()
        if self.mood not in ("blocking", "warning"):
            return []
        return [
            Finding(id="toy-found", subject="node n1", text="not well", remedy="look", blocking=self.mood == "blocking")
        ]

    def preview(self, ctx: Context[Wanted]) -> dict[str, object]:
        return {"place": ctx.desired.place}

    def report(self, ctx: Context[Wanted]) -> dict[str, object]:
        return {"place": ctx.desired.place, "there": ctx.host.stat(ctx.desired.place) is not None}


class Ran:
    def __init__(self, status: int, result: dict[str, Any]) -> None:
        self.status, self.result = status, result

    @property
    def message(self) -> str:
        return str(self.result["msg"])


def feature(mood: str = "", engine: Optional[Toy] = None) -> loop.Feature[Wanted]:
    engine = engine or Toy()
    engine.mood = mood
    return loop.Feature(name="toy", spec=SPEC, desired=from_options(desired), engine=engine)


def paths(top: Path) -> list[str]:
    return sorted(str(path.relative_to(top)) for path in top.rglob("*"))
