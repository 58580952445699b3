# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the surveys of AWX's job templates into docs/awx.md, between its marks, from what the playbooks' variables are said to be.

    python -m scripts.survey_page            # write
    python -m scripts.survey_page --check    # status 1 if the page would change

What stands around the marks is written by hand.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from scripts.written import ROOT, between, run

sys.path.insert(0, str(ROOT / ".build" / "collections"))  # made by `make env`

from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import PLAYBOOKS
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.variables import OWN

PAGE = ROOT / "docs/awx.md"
BEGIN, END = "<!-- surveys begin -->", "<!-- surveys end -->"
_BATCHES = ("canaries", "max_fail", "pause", "gate_query", "gate_prometheus", "gate_threshold")
# For each playbook, the questions at each start, without the prefix. What is the same for a fleet, what a file contains, and what makes
# a run act belongs into the template.
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "kube_proxy_migrate": ("hosts", "mode", *_BATCHES, "confirm_within"),
    "kube_proxy_rollback": ("hosts", *_BATCHES),
    "kube_proxy_audit": ("hosts",),
    "kube_proxy_cleanup": ("hosts", "cut_connections"),
    "image_pull_proxy": ("hosts", "state", "max_in_flight", "on_full", "order", *_BATCHES),
    "balloons": ("hosts", "state", "grow_timeout", *_BATCHES),
    "readiness": ("hosts", "exercise"),
    "fleet_run": ("playbook", "state", "slices", "parallelism", "forks"),
}
# A fleet run also asks the questions of the playbook that it divides. kube_proxy_migrate has all of kube_proxy_rollback; an answer decides
# which of the two runs.
_DIVIDED = {"fleet_run": "kube_proxy_migrate"}
# Without these the playbook refuses to run, always or in one state, which an argument spec cannot say.
_REQUIRED = {("kube_proxy_migrate", "mode"), ("image_pull_proxy", "max_in_flight"), ("fleet_run", "playbook")}
# Modules whose options are variables of the playbook.
_MODULES = {
    "kube_proxy_migrate": "kube_proxy_change",
    "kube_proxy_rollback": "kube_proxy_change",
    "kube_proxy_cleanup": "kube_proxy_cleanup",
}
_TYPES = {"str": "text", "path": "text", "raw": "text", "int": "integer", "float": "float"}
_LONGEST = 1024  # characters of an answer


def options(playbook: str) -> dict[str, Any]:
    """Argument specs of a playbook's variables, by name without the prefix."""
    prefix = PLAYBOOKS[playbook].prefix
    found: dict[str, Any] = {}
    if playbook in _MODULES:
        found.update(documentation(ROOT / f"plugins/modules/{_MODULES[playbook]}.py")["options"])
    role = ROOT / f"roles/{prefix}/meta/argument_specs.yml"
    if role.is_file():
        specs = yaml.safe_load(role.read_text(encoding="utf-8"))["argument_specs"]
        for name, option in specs["main"].get("options", {}).items():
            found[name.removeprefix(f"{prefix}_")] = option
    return {**found, **yaml.safe_load((ROOT / OWN).read_text(encoding="utf-8"))[prefix]}


def documentation(module: Path) -> dict[str, Any]:
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOCUMENTATION":
            page: dict[str, Any] = yaml.safe_load(ast.literal_eval(node.value))
            return page
    raise LookupError(f"{module} has no documentation")


def survey(playbook: str) -> dict[str, Any]:
    """The survey for AWX's API: POST to job_templates/ID/survey_spec/."""
    return {"name": "", "description": "", "spec": questions(playbook)}


def questions(playbook: str) -> list[dict[str, Any]]:
    prefix = PLAYBOOKS[playbook].prefix
    known = options(playbook)
    rows = [question(playbook, prefix, name, known[name]) for name in QUESTIONS[playbook]]
    if playbook not in _DIVIDED:
        return rows
    # Ending or rolling back a run needs no mode: a required answer would have to be a wrong one.
    return rows + [{**row, "required": False} for row in questions(_DIVIDED[playbook])]


def question(playbook: str, prefix: str, name: str, option: Mapping[str, Any]) -> dict[str, Any]:
    choices = ["true", "false"] if option["type"] == "bool" else list(option.get("choices", ()))
    default = option.get("default", "")
    return {
        "variable": f"{prefix}_{name}",
        "question_name": name.replace("_", " ").capitalize(),
        "question_description": shown(option["description"]),
        "required": bool(option.get("required")) or (playbook, name) in _REQUIRED,
        "type": "multiplechoice" if choices else _TYPES[option["type"]],
        "choices": choices,
        "default": str(default).lower() if isinstance(default, bool) else default,
        "min": None if choices else 0,
        "max": _LONGEST if _TYPES.get(option["type"]) == "text" and not choices else None,
    }


def shown(description: str | list[str]) -> str:
    """The first sentence of a description, without Ansible's markup."""
    first = description if isinstance(description, str) else description[0]
    return re.sub(r"\b[A-Z]+\((?:[^():]*:)?([^()]*)\)", r"\1", first.strip())


def as_markdown() -> str:
    parts = []
    for playbook in QUESTIONS:
        made = survey(playbook)
        rows = ",\n".join(f"  {json.dumps(row)}" for row in made["spec"])
        head = json.dumps({name: made[name] for name in ("name", "description")})[:-1]
        parts.append(f'#### `{playbook}`\n\n```json\n{head}, "spec": [\n{rows}\n]}}\n```\n')
    return "\n" + "\n".join(parts)


def files() -> Iterator[tuple[Path, str]]:
    yield PAGE, between(PAGE, BEGIN, END, as_markdown())


def main(arguments: list[str]) -> int:
    return run("survey_page", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
