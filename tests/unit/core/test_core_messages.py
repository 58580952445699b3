# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ids that all features share: each in one table, raised as the table has it, and the kernel's by their rule."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache import start
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_files import host_error
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Refused
from ansible_collections.ballast.kube.plugins.module_utils._core.text import (
    errors,
    host_messages,
    input_messages,
    kube_messages,
    run_messages,
    service_messages,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.json_text import NotJson

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"
FILES = sorted(PLUGINS.rglob("*.py"))
TABLES = [module.MESSAGES for module in (host_messages, input_messages, kube_messages, run_messages, service_messages)]
ROWS = {id: row for table in TABLES for id, row in table.rows.items()}
OF_KERNEL = {f"core-{name.lower()}" for name in errno.errorcode.values()}
CLASSES: dict[str, type] = {**vars(errors), "NotJson": NotJson, "Refused": Refused}


class Raised(NamedTuple):
    file: str
    error: str  # its class
    id: str


def raised() -> Iterator[Raised]:
    """Each `Class(**MESSAGES.texts("core-...", ...))`."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            for inner in (keyword.value for keyword in node.keywords if keyword.arg is None):
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "texts":
                    id = inner.args[0]
                    if isinstance(id, ast.Constant):
                        yield Raised(path.name, node.func.id, str(id.value))


def test_an_id_is_in_one_table_only() -> None:
    assert len(ROWS) == sum(len(table.rows) for table in TABLES)


def test_every_id_that_is_named_is_in_a_table_or_the_kernels() -> None:
    named = {id for path in FILES for id in re.findall(r'"(core-[a-z-]+[a-z])"', path.read_text(encoding="utf-8"))}
    assert len(named) > 50
    assert named - ROWS.keys() - OF_KERNEL == set()


def test_every_row_is_named_outside_of_its_table() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FILES if not path.name.endswith("_messages.py")]
    computed = {id for id in ROWS if id in OF_KERNEL or id.startswith("core-not-a-")}
    assert {id for id in ROWS.keys() - computed if not any(f'"{id}"' in text for text in texts)} == set()


def test_no_text_of_an_error_is_outside_of_the_tables() -> None:
    """But of what is sent without them, which a test below compares."""
    tables = {"errors.py", *(path.name for path in FILES if path.name.endswith("_messages.py"))}
    written = [path.name for path in FILES if re.search(r'\bid=f?"core-', path.read_text(encoding="utf-8"))]
    assert set(written) - tables == set()


def test_an_error_is_raised_as_the_class_of_its_row() -> None:
    every = list(raised())
    assert len(every) > 40
    others = [error for error in every if not issubclass(CLASSES[error.error], ROWS[error.id].error)]
    assert others == [
        ("web.py", "PeerError", "core-too-large")
    ]  # what a server sends; the others are files and commands


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_an_error_of_the_kernel_has_its_name_and_a_remedy(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    error = host_error("read", "/some/file", OSError(number, os.strerror(number)))
    assert (error.id, error.text) == (f"core-{errno.errorcode[number].lower()}", "cannot read /some/file")
    assert (error.found, error.page) == (os.strerror(number), "docs/reference/errors-core.md")
    assert error.remedy == ROWS.get(error.id, ROWS["core-os"]).remedy != ""


def test_an_error_without_a_name_of_the_kernel_is_of_the_rule() -> None:
    error = host_error("read", "/some/file", OSError("no number"))
    assert (error.id, error.found) == ("core-os", "no number")


def test_what_comes_without_the_tables_says_the_same() -> None:
    row = run_messages.MESSAGES.error("core-engines", path="{path}")
    assert str(row) == start._NOT_SENT


def test_the_fields_of_the_core_are_whole() -> None:
    path = "/long" * 100
    assert path in host_messages.MESSAGES.texts("core-locked", path=path)["text"]
