# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is true of each feature wherever it is on, and the ways in which it is known to fail. Pure and strict.

The prose is data: plugins/plugin_utils/readiness_features has a YAML document for each feature. The action plugin of
`readiness_info` reads them on the Ansible control node. A node has none of it and names failure modes by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .._core.text.decode import choice, matching
from .._core.text.errors import Problems
from .exercises import KINDS
from .fields import Row, new_faults, parse_filled, text
from .messages import MESSAGES
from .questionnaire import QUESTIONS, Question

PARAMETER = "documents"  # the option by which the action plugin hands over the documents
_FEATURE = ("name", "title", "page", "module", "exercises", "answers", "failures")
_MODE = ("id", "text", "detection", "mitigation", "diagnosis", "test")
_MISSING = "readiness-key-missing"
_ID = matching(re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII), "in kebab-case")


@dataclass(frozen=True)
class FailureMode:
    """A way in which the feature is known to fail, as the template asks for it."""

    id: str  # kebab-case, and of this feature alone: "kube-proxy-not-in-sync"
    text: str
    detection: str  # by metrics or by what a module says, without a login on the machine
    mitigation: str  # what stops the harm now
    diagnosis: str  # where to look for the cause
    test: str  # "tests/integration/FILE.py::NAME" that causes it on real parts, and asks the reading then
    alert: str = ""  # of the rule file, where a metric can tell


@dataclass(frozen=True)
class Static:
    """An answer that is true of the feature wherever it is on. `tests`: "tests/FILE.py::NAME" of each."""

    text: str
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Feature:
    name: str  # "kube_proxy"; never renamed once released
    title: str
    page: str  # of docs/
    module: str  # the `_info` module that reads it
    statics: Mapping[str, Static]  # by id of the questionnaire; `answers` of the document
    failures: tuple[FailureMode, ...]
    exercises: tuple[str, ...] = ()  # that the role `readiness` does on a canary; of another kind only tests show it

    def modes(self, ids: Collection[str]) -> tuple[FailureMode, ...]:
        """These failure modes, in the feature's order."""
        return tuple(mode for mode in self.failures if mode.id in ids)


def parse_features(documents: Sequence[object]) -> tuple[Feature, ...]:
    """Problems with every fault of every document. Only unit tests can check that the tests which they name exist."""
    faults = new_faults()
    features = tuple(_feature(Row(document, faults, _path(document), _FEATURE)) for document in documents)
    if not documents:
        faults.add(_MISSING, PARAMETER, key="a document")
    ids = [mode.id for feature in features for mode in feature.failures]
    for id in sorted({id for id in ids if ids.count(id) > 1}):
        faults.wrong("failures", id, "the id of a single failure mode")
    Problems.raise_if([MESSAGES.error("readiness-feature", problem=problem.text) for problem in faults.problems])
    return features


def _path(document: object) -> str:
    return str(document.get("name")) if isinstance(document, Mapping) else "feature"


def _feature(row: Row) -> Feature:
    answers = row.part("answers", [question.id for question in QUESTIONS])
    failures = row.items("failures")
    if not failures:
        row.faults.add(_MISSING, row.at("failures"), key="a failure mode")
    return Feature(
        name=row.read("name", parse_filled, ""),
        title=row.read("title", parse_filled, ""),
        page=row.read("page", parse_filled, ""),
        module=row.read("module", parse_filled, ""),
        statics={question.id: _static(question, answers) for question in QUESTIONS},
        failures=tuple(_mode(Row(mode, row.faults, path, _MODE, ("alert",))) for path, mode in failures),
        exercises=tuple(row.faults.take(path, kind, choice(KINDS), "") for path, kind in row.items("exercises")),
    )


def _static(question: Question, answers: Row) -> Static:
    """What an exercise shows on a canary, a test has to show as well."""
    required, optional = (("text", "tests"), ()) if question.exercise else (("text",), ("tests",))
    row = answers.part(question.id, required, optional)
    return Static(row.read("text", parse_filled, ""), row.texts("tests"))


def _mode(row: Row) -> FailureMode:
    texts = {key: row.read(key, parse_filled, "") for key in _MODE if key != "id"}
    return FailureMode(row.read("id", _ID, ""), **texts, alert=row.read("alert", text, ""))
