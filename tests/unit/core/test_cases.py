# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The loader of case files, with an engine of one file; and that it fails when it should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import ResourceEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import BASE_KINDS, FileKind, Kind, file
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Resource, Value
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from tests.unit.cases import Case, Subject, check, load_cases, parse_case
from tests.unit.fakes import FakeHost

TEXT = """
why: a file is made where none was
given: {}
want: {content: hello}
plan: [make file /etc/x]
after: hello
"""


@dataclass(frozen=True)
class Wanted:
    state_dir: str
    content: str


class Engine(ResourceEngine[Wanted]):
    name = "test"
    kinds: Mapping[str, Kind] = BASE_KINDS

    def wanted(self, ctx: Context[Wanted]) -> list[Resource]:
        return [file("/etc/x", ctx.desired.content)] if ctx.desired.content else []


def wanted(want: Mapping[str, Any]) -> Wanted:
    if "content" not in want:
        raise UserError("content: is missing", id="test-content")
    return Wanted(state_dir="/var/lib/test", content=want["content"])


def subject(engine: ResourceEngine[Wanted]) -> Subject[Wanted]:
    return Subject(
        engine=engine,
        desired=wanted,
        nothing=lambda want: Wanted(state_dir="/var/lib/test", content=""),
        machine=lambda given: FakeHost(files=given),
        look=lambda host: (host.read("/etc/x") or b"").decode(),
    )


def case(text: str = TEXT) -> Case:
    return parse_case("case", text)


def test_a_case_that_holds_passes() -> None:
    check(case(), subject(Engine()))
    check(case(TEXT.replace("given: {}", "given: {/etc/x: old}").replace("make", "change")), subject(Engine()))
    check(case("{why: w, given: {}, want: {}, error: test-content}"), subject(Engine()))


class Careless(FileKind):
    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Leaves it."""


class Restless(FileKind):
    def read(self, ctx: Context[Any], target: str) -> Value:
        ctx.host.write("/tmp/touched", b"")
        return super().read(ctx, target)


class Fragile(FileKind):
    """Does not see what it left when it was killed."""

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        ctx.host.write("/etc/x.part", b"")
        super().write(ctx, target, after, before)
        ctx.host.remove("/etc/x.part")


@pytest.mark.parametrize("kind", [Careless(), Restless(), Fragile()])
def test_an_engine_with_a_fault_fails(kind: Kind) -> None:
    engine = Engine()
    engine.kinds = {"file": kind}
    with pytest.raises(AssertionError):
        check(case(), subject(engine))


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("make file", "change file"),
        TEXT.replace("after: hello", "after: bye"),
        "{why: w, given: {}, want: {}, error: other-id}",
    ],
)
def test_a_case_that_does_not_hold_fails(text: str) -> None:
    with pytest.raises(AssertionError):
        check(case(text), subject(Engine()))


@pytest.mark.parametrize("text", [TEXT + "hope: x", TEXT + "error: x", "{why: w, given: {}, want: {}}"])
def test_a_case_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(AssertionError):
        case(text)


def test_cases_are_loaded_by_name_and_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no case"):
        load_cases(tmp_path)
    (tmp_path / "b.yml").write_text(TEXT)
    (tmp_path / "a.yml").write_text(TEXT)
    assert [found.name for found in load_cases(tmp_path)] == ["a", "b"]
