# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is true of each feature wherever it is on, and its known failure modes. Pure and strict.

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

PARAMETER = "documents"  # the option in which the action plugin passes the documents
_FEATURE = ("name", "title", "page", "module", "exercises", "answers", "failures")
_MODE = ("id", "text", "detection", "mitigation", "diagnosis", "test")
_MISSING = "readiness-key-missing"
_ID = matching(re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII), "in kebab-case")


@dataclass(frozen=True)
class FailureMode:
    """A known failure mode of the feature, with the fields of the KEP template."""

    id: str  # kebab-case and unique to this feature: "kube-proxy-not-in-sync"
    text: str
    detection: str  # by metrics or by what a module reports, without a login on the machine
    mitigation: str  # what stops the harm at once
    diagnosis: str  # where to look for the cause
    test: str  # "tests/integration/FILE.py::NAME" that causes it on real components and checks the reading
    alert: str = ""  # alert in the rule file, if a metric can detect it


@dataclass(frozen=True)
class Static:
    """An answer that holds for the feature wherever it is on. `tests`: "tests/FILE.py::NAME" of each."""

    text: str
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Feature:
    name: str  # "kube_proxy"; never renamed once released
    title: str
    page: str  # file name in docs/
    module: str  # the `_info` module that reads it
    statics: Mapping[str, Static]  # by id of the question; from `answers` of the document
    failures: tuple[FailureMode, ...]
    # Kinds that the role `readiness` does on a canary; other kinds are only shown by tests.
    exercises: tuple[str, ...] = ()

    def modes(self, ids: Collection[str]) -> tuple[FailureMode, ...]:
        """These failure modes, in the feature's order."""
        return tuple(mode for mode in self.failures if mode.id in ids)


def parse_features(documents: Sequence[object]) -> tuple[Feature, ...]:
    """The features; Problems with every fault of every document. Only unit tests can check that the named tests exist."""
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
    """What a drill shows on a canary, a test must show as well."""
    required, optional = (("text", "tests"), ()) if question.exercise else (("text",), ("tests",))
    row = answers.part(question.id, required, optional)
    return Static(row.read("text", parse_filled, ""), row.texts("tests"))


def _mode(row: Row) -> FailureMode:
    texts = {key: row.read(key, parse_filled, "") for key in _MODE if key != "id"}
    return FailureMode(row.read("id", _ID, ""), **texts, alert=row.read("alert", text, ""))
