# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples of pages, and what is wrong with them by the code of this checkout: nothing of an example is run.

A block that none of these checks knows is a problem too, so that no example goes unchecked.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.settings import Settings as Reconciler
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._lab import topology
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Settings as PullProxy
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import PLAYBOOKS
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.variables import known_names

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "ballast.kube."
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_PROMPT = re.compile(r"^(?:[a-z]+[0-9]*)?[$#] ", re.MULTILINE)
_FILE = re.compile(r"\A(?:#|//) ([\w./-]+\.\w+)\n")
_SEPARATORS = {"|", "||", "&", "&&", ";", "(", ")"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_OF_CONTROL_PLANES = "playbooks/vars/plane.yml"
_STEP_KEYS = {"uses", "run"}
# Keys by which files of Prometheus, Molecule, ansible-builder and AWX (an input, an injector) are known. Those check them.
_OF_OTHERS = {"scrape_configs", "provisioner", "dependencies", "fields", "extra_vars"}
_GROUP_KEYS = {"hosts", "vars", "children"}
_ANY_OPTION = {"ansible.builtin.add_host", "ansible.builtin.set_fact"}  # of the reader's own names


@dataclass(frozen=True)
class Example:
    language: str
    text: str

    @property
    def file(self) -> str:
        """The path in its first line, a comment; "" where it is no file of the reader's."""
        found = _FILE.match(self.text)
        return found[1] if found else ""


def read_examples(page: str) -> list[Example]:
    return [Example(language, textwrap.dedent(text)) for _indent, language, text in _FENCE.findall(page)]


# Consoles.


def count_fences(page: str) -> int:
    """Lines that begin or end a block, in any way that Markdown has."""
    return len(re.findall(r"^[ >]*(?:```|~~~)", page, flags=re.MULTILINE))


def read_commands(console: str) -> list[str]:
    """Lines with a prompt, and those that they are continued on."""
    lines = re.sub(r"\\\n\s*", " ", console).splitlines()
    return [_PROMPT.sub("", line, count=1) for line in lines if _PROMPT.match(line)]


def split_programs(line: str) -> list[list[str]]:
    """Words of each program of a line of a shell, without the variables and `sudo` before it. Raises ValueError where quotes do not match."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    programs: list[list[str]] = [[]]
    for word in words:
        if word in _SEPARATORS:
            programs.append([])
        else:
            programs[-1].append(word)
    return [program for program in map(_without_environment, programs) if program]


def _without_environment(words: list[str]) -> list[str]:
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in ("sudo", "env", "export")):
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[1:]
    return words


def find_command_problems(line: str, files: Sequence[str] = ()) -> list[str]:
    """`files` are those that the page shows."""
    try:
        programs = split_programs(line)
    except ValueError as error:
        return [f"{line}: {error}"]
    return [f"{' '.join(words)}: {problem}" for words in programs for problem in _problems(words, files)]


def _problems(words: Sequence[str], files: Sequence[str]) -> Iterator[str]:
    program = words[0].rpartition("/")[2]
    if program == "make":
        yield from _make_problems(words[1:])
    elif program == "ansible-playbook":
        yield from _playbook_problems(words[1:], files)
    elif program == "ansible":
        yield from _ad_hoc_problems(words[1:])
    elif program.endswith(".py") and not (ROOT / words[0]).is_file():
        yield f"there is no {words[0]}"


def _make_problems(words: Sequence[str]) -> Iterator[str]:
    words = [word for before, word in zip(["", *words], words) if "--directory" not in (before, word)]
    variables = dict(word.split("=", 1) for word in words if _ASSIGNMENT.match(word))
    unknown = sorted(set(variables) - make_variables())
    if unknown:
        yield f"no makefile reads {', '.join(unknown)}"
        return
    argv = ["make", "--dry-run", "--no-print-directory", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield done.stderr.strip()
    targets = [word for word in words if not _ASSIGNMENT.match(word)]
    known = {name for playbook in _playbooks() for name in playbook_variables(playbook)}
    for name in sorted(set(_extra_names(shlex.split(variables.get("ARGS", "")))) - known):
        yield f"no playbook of {', '.join(targets)} has the variable {name}"


@cache
def make_variables() -> frozenset[str]:
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / "Makefile", *sorted(ROOT.glob("mk/*.mk"))))
    return frozenset(re.findall(r"(?:\$\(|lab-option,)([A-Z_]+)", text))


def _playbook_problems(words: Sequence[str], files: Sequence[str]) -> Iterator[str]:
    options = _options(words)
    named = [word for word in options[""] if not word.startswith("-")]
    for name in named:
        if name.startswith(COLLECTION):
            if name.removeprefix(COLLECTION) not in _playbooks():
                yield f"there is no playbook {name}"
                continue
            known = playbook_variables(name.removeprefix(COLLECTION))
            for unknown in sorted(set(_extra_names(words)) - known):
                yield f"the playbook has no variable {unknown}"
        elif name not in files:
            yield f"the page does not show {name}"
    if not named:
        yield "no playbook is named"


def _ad_hoc_problems(words: Sequence[str]) -> Iterator[str]:
    options = _options(words)
    for module in options.get("-m", ["ansible.builtin.command"]):
        found = documented("module", module)
        if found is None:
            yield f"there is no module {module}"
        elif found["options"] and "_raw_params" not in str(found["options"]) and "free_form" not in found["options"]:
            given = dict(pair.split("=", 1) for text in options.get("-a", []) for pair in shlex.split(text))
            yield from option_problems(given, found["options"])


def _options(words: Sequence[str]) -> dict[str, list[str]]:
    """Values by option; what belongs to none is under ""."""
    with_value = {"-e", "-i", "-m", "-a", "-l", "-t", "--extra-vars", "--inventory", "--limit", "--tags", "--forks"}
    found: dict[str, list[str]] = {"": []}
    waiting = ""
    for word in words:
        if waiting:
            found.setdefault(waiting, []).append(word)
            waiting = ""
        elif word in with_value:
            waiting = word
        else:
            found[""].append(word)
    return found


def _extra_names(words: Sequence[str]) -> Iterator[str]:
    for text in _options(words).get("-e", []):
        if text.startswith("{"):
            yield from json.loads(text)
        elif not text.startswith("@"):
            yield from (pair.split("=", 1)[0] for pair in text.split())


# What there is.


@cache
def _playbooks() -> frozenset[str]:
    return frozenset(path.stem for path in (ROOT / "playbooks").glob("*.yml"))


@cache
def playbook_variables(name: str) -> frozenset[str]:
    if name in PLAYBOOKS:
        every = {prefix for playbook in PLAYBOOKS.values() for prefix in playbook.all_prefixes}
        prefixes = every if name == "fleet_run" else PLAYBOOKS[name].all_prefixes
        return frozenset(known_names(LocalHost(), prefixes))
    names = set(role_variables("kubernetes_binaries"))
    if name.startswith("lab_"):
        names |= set(known_names(LocalHost(), ["lab"]))
    if name.startswith("control_plane"):
        found = documented("module", f"{COLLECTION}control_plane") or {"options": {}}
        names |= {*_read_yaml(ROOT / _OF_CONTROL_PLANES), *(f"plane_{option}" for option in found["options"])}
    return frozenset(names)


@cache
def role_variables(name: str) -> frozenset[str]:
    path = ROOT / "roles" / name / "meta/argument_specs.yml"
    specs = _read_yaml(path)["argument_specs"] if path.is_file() else {}
    return frozenset(option for entry in specs.values() for option in entry.get("options", {}))


def _read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def documented(kind: str, name: str) -> Mapping[str, Any] | None:
    """What `ansible-doc` says of a module or another plugin; None where there is none."""
    return _documentation(kind, frozenset((name,)) | _EVERY.get(kind, frozenset())).get(name)


_EVERY = {
    "module": frozenset(COLLECTION + path.stem for path in (ROOT / "plugins/modules").glob("[a-z]*.py"))
    | {f"ansible.builtin.{name}" for name in ("assert", "command", "copy", "debug", "file", "include_role", "set_fact")}
    | {f"ansible.builtin.{name}" for name in ("import_playbook", "lineinfile", "template")}
}


@cache
def _documentation(kind: str, names: frozenset[str]) -> dict[str, Mapping[str, Any]]:
    argv = [sys.executable, "-m", "ansible", "doc", "--json", "--type", kind, *sorted(names)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout or "{}")
    return {name: {"options": {}, **entry["doc"]} for name, entry in found.items() if "doc" in entry}


# YAML.


def find_yaml_problems(text: str, files: Sequence[str] = ()) -> list[str]:
    """Problems of plays, tasks, workflows, manifests and inventories. What is none of these has to be YAML alone."""
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        return [f"no YAML: {error}"]
    return [problem for document in documents for problem in _document_problems(document, files)]


def _document_problems(document: Any, files: Sequence[str]) -> Iterator[str]:
    if isinstance(document, list):
        for row in document:
            yield from _play_problems(row, files) if is_play(row) else _task_problems(row)
    elif not isinstance(document, dict):
        yield "neither a list nor a mapping"
    elif "jobs" in document:
        steps = [step for job in document["jobs"].values() for step in job["steps"]]
        for step in steps:
            if len(_STEP_KEYS & set(step)) != 1:
                yield f"a step has one of {', '.join(sorted(_STEP_KEYS))}: {step}"
            for line in re.sub(r"\$\{\{.*?\}\}", "X", step.get("run", "")).splitlines():
                yield from find_command_problems(line, files)
    elif "apiVersion" in document:
        if not document.get("kind"):
            yield "a manifest has a kind"
    elif "plugin" in document:
        found = documented("inventory", document["plugin"])
        yield from option_problems(document, found["options"]) if found else [f"no inventory {document['plugin']}"]
    elif all(isinstance(value, dict) and set(value) & _GROUP_KEYS for value in document.values()):
        yield from _inventory_problems(document)
    elif not _OF_OTHERS & set(document):
        yield from _settings_problems(document)


def _inventory_problems(groups: Mapping[str, Any]) -> Iterator[str]:
    for group in groups.values():
        yield from (f"a group has no {key}" for key in sorted(set(group) - _GROUP_KEYS))
        for variables in (group.get("vars"), *group.get("hosts", {}).values()):
            yield from _variable_problems(variables or {})
        yield from _inventory_problems(group.get("children", {}))


def _settings_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Of variables, options of a module, a topology, or settings of a program: whichever has most of the names."""
    best = max(_vocabularies(), key=lambda kind: len(set(document) & _vocabularies()[kind]))
    yield from (f"no {best} has {name}" for name in document if name not in _vocabularies()[best])
    if best == "topology":
        yield from _topology_problems(document)


@cache
def _vocabularies() -> Mapping[str, frozenset[str]]:
    modules = [name for name in _EVERY["module"] if name.startswith(COLLECTION)]
    return {
        "playbook or role": _variables(),
        "topology": frozenset(topology._KEYS),
        "settings of the reconciler": frozenset(field.name for field in fields(Reconciler)),
        "settings of the pull proxy": frozenset(field.name for field in fields(PullProxy)),
        **{f"module {name}": frozenset((documented("module", name) or {})["options"]) for name in sorted(modules)},
    }


def _topology_problems(document: Mapping[str, Any]) -> Iterator[str]:
    not_given = dict.fromkeys(("name", "nodes", "addons", "ip_family"))
    place = {"lab_dir": "/srv/lab", "target": "host", "bootstrap": "lab", "hosts": 2, "service_cidr": "10.96.0.0/16"}
    rest = {"default_addons": topology.DEFAULT_ADDONS, "balloons": False, "sizes": {}}
    rest["kubernetes_version"] = document.get("kubernetes_version", DEFAULT_KUBERNETES)
    try:
        topology.parse_request({**not_given, **place, **rest, "topology": document})
    except BallastError as error:
        yield str(error)


def is_play(row: Any) -> bool:
    return isinstance(row, dict) and bool({"hosts", "ansible.builtin.import_playbook"} & set(row))


def _variable_problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Of names that begin as the variables of a playbook or role do."""
    unknown = (name for name in document if name.startswith(_heads()) and name not in _variables())
    yield from (f"no playbook or role has {name}" for name in unknown)


@cache
def _variables() -> frozenset[str]:
    names = {name for playbook in _playbooks() for name in playbook_variables(playbook)}
    return frozenset(names | {name for path in (ROOT / "roles").iterdir() for name in role_variables(path.name)})


@cache
def _heads() -> tuple[str, ...]:
    of_playbooks = {f"{prefix}_" for one in PLAYBOOKS.values() for prefix in one.all_prefixes} | {"lab_", "plane_"}
    return tuple(sorted(of_playbooks | {f"{path.name}_" for path in (ROOT / "roles").iterdir()}))


def _play_problems(play: Mapping[str, Any], files: Sequence[str]) -> Iterator[str]:
    imported = play.get("ansible.builtin.import_playbook", "")
    if imported and imported.removeprefix(COLLECTION) not in _playbooks() and imported not in files:
        yield f"there is no playbook {imported}"
    if imported:
        yield from _variable_problems(play.get("vars", {}))
    for row in play.get("roles", []):
        role = row if isinstance(row, dict) else {"role": row}
        name = role["role"]
        if name.startswith(COLLECTION):
            given = {**role, **role.get("vars", {}), **play.get("vars", {})}
            yield from _role_problems(name.removeprefix(COLLECTION), given)
    for part in ("pre_tasks", "tasks", "post_tasks", "handlers"):
        for task in play.get(part, []):
            yield from _task_problems(task)


def _role_problems(name: str, given: Mapping[str, Any]) -> Iterator[str]:
    if not (ROOT / "roles" / name).is_dir():
        yield f"there is no role {name}"
    known = role_variables(name)
    yield from (f"role {name} has no {key}" for key in given if key.startswith(f"{name}_") and key not in known)


def _task_problems(task: Any) -> Iterator[str]:
    if not isinstance(task, dict):
        yield f"no task: {task}"
        return
    inner = [one for part in ("block", "rescue", "always") for one in task.get(part, [])]
    for one in inner:
        yield from _task_problems(one)
    modules = [name for name in task if name.count(".") == 2]
    if len(modules) != (0 if inner else 1):
        yield f"a task names one module in full: {', '.join(task)}"
    for module in modules:
        given, found = task[module], documented("module", module)
        if found is None:
            yield f"there is no module {module}"
        elif module == "ansible.builtin.include_role" and given["name"].startswith(COLLECTION):
            yield from _role_problems(given["name"].removeprefix(COLLECTION), task.get("vars", {}))
        elif isinstance(given, dict) and module not in _ANY_OPTION:
            yield from option_problems(given, found["options"])


def option_problems(given: Mapping[str, Any], options: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Names that are no former ones, values of choices, and suboptions. Templates may be anything."""
    for name, value in given.items():
        where, spec = f"{path}{name}", options.get(name)
        if spec is None:
            yield f"there is no option {where}"
            continue
        if isinstance(value, str) and "{{" in value:
            continue
        rows = value if isinstance(value, list) else [value]
        choices = [str(choice) for choice in spec.get("choices") or []]
        yield from (
            f"{where}: {row} is none of {', '.join(choices)}" for row in rows if choices and str(row) not in choices
        )
        for row in rows:
            if spec.get("suboptions") and isinstance(row, dict):
                yield from option_problems(row, spec["suboptions"], f"{where}.")
