# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worked example of docs/CONTRIBUTING.md, run as it stands there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs/CONTRIBUTING.md"
PACKAGE = "ansible_collections.ballast.kube.plugins.module_utils._kernel_setting"
MOST_LINES = 150


def blocks() -> dict[str, str]:
    """By path, each block of the example."""
    return dict(
        re.findall(r"^`([\w/.]+\.py)`[^\n]*:\n\n```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    )


def loaded(name: str, code: str) -> ModuleType:
    module = ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    sys.modules[name] = module
    exec(compile(code, f"{PAGE}:{name}", "exec"), vars(module))
    return module


@pytest.fixture
def example() -> Iterator[dict[str, Any]]:
    known = dict(sys.modules)
    sys.modules[PACKAGE] = ModuleType(PACKAGE)
    engine, module, tests = blocks().values()
    loaded(f"{PACKAGE}.engine", engine)
    yield {"module": loaded("example.module", module), "tests": loaded("example.tests", tests)}
    for name in set(sys.modules) - set(known):
        del sys.modules[name]


def test_the_example_is_short_and_its_tests_pass(example: dict[str, Any]) -> None:
    assert sum(code.count("\n") for code in blocks().values()) < MOST_LINES
    tests = [value for name, value in vars(example["tests"]).items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
    assert callable(example["module"].main)
