# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of lab_up whose values, or files that they name, are wrong. Else a lab would be made before some of them are read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Optional

import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import read_file
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import READ_LIMIT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError

from .given import Given
from .messages import MESSAGES
from .variables import own_variables

_PREFIX = "lab"
_TOPOLOGY, _ARCHIVE = "lab_topology", "lab_archive"


def find_lab_problems(given: Given) -> list[BallastError]:
    """Reads the topology file and the archive if the variables name them."""
    of_files = [_find_topology_problem(given.value(_TOPOLOGY)), _find_archive_problem(given.value(_ARCHIVE))]
    return [*_find_value_problems(given), *(problem for problem in of_files if problem is not None)]


def _find_value_problems(given: Given) -> Iterator[BallastError]:
    for name, row in own_variables(LocalHost(), _PREFIX).items():
        value = given.value(f"{_PREFIX}_{name}")
        text = "" if value is None else str(value)
        expected = ""
        if "choices" in row and text not in row["choices"]:
            expected = f"one of {', '.join(row['choices'])}"
        elif row["type"] == "int" and not text.removeprefix("-").isdecimal():
            expected = "a whole number"
        if text and expected:
            shown = {"name": f"{_PREFIX}_{name}", "value": text, "expected": expected}
            yield MESSAGES.error("fleet-value", hint="correct it, or omit it for its default", **shown)


def _find_topology_problem(path: object) -> Optional[BallastError]:
    """What is in the file is for the lab to judge."""
    if not path:
        return None

    def wrong(expected: str, found: str, hint: str) -> BallastError:
        return MESSAGES.error("fleet-value", found=found, name=_TOPOLOGY, value=path, expected=expected, hint=hint)

    try:
        content = yaml.safe_load(read_file(os.path.realpath(str(path)), limit=READ_LIMIT))
    except OSError as error:
        found = error.strerror or str(error)
        return wrong("a file that can be read", found, "give the path of a topology file: docs/reference/lab.md")
    except (BallastError, yaml.YAMLError, UnicodeDecodeError) as error:
        return wrong("a YAML file", str(error), "correct it: docs/reference/lab.md has an example")
    if content is not None and not isinstance(content, dict):
        return wrong(
            "a topology, which is a mapping", f"a {type(content).__name__}", "begin it with a key, such as nodes:"
        )
    return None


def _find_archive_problem(path: object) -> Optional[BallastError]:
    """Only root may be able to read it."""
    if not path or os.path.isfile(str(path)) or not os.access(os.path.dirname(os.path.realpath(str(path))), os.X_OK):
        return None
    hint = "give the path of an image archive, such as docker save, podman save or crane pull write"
    return MESSAGES.error("fleet-value", name=_ARCHIVE, value=path, expected="a file", hint=hint)
