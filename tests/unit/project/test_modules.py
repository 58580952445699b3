# Copyright (c) 2026 the ballast.kube authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `ansible-doc` shows of the modules: one imperative line each, their groups, and the options that they accept."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml
from ansible.module_utils import basic

from ansible_collections.ballast.kube.plugins.module_utils._ansible import run
from ansible_collections.ballast.kube.plugins.plugin_utils.kube_proxy_change import SPEC as CHANGE_SPEC

ROOT = Path(__file__).parents[3]
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))
RUNTIME = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))
GROUPS = RUNTIME["action_groups"]
FORMER_GROUPS = {"node": "kubelet_instance", "plane": "control_plane"}
FORMER_MODULES = {name: row["redirect"] for name, row in RUNTIME["plugin_routing"]["modules"].items()}
REMOVAL = "2.0.0"

# Parts of the collection's own playbooks and roles, not meant for a task of a user's.
INTERNAL = {
    "control_plane_record",
    "fleet_slice",
    "instance_network",
    "lab_addons",
    "lab_check",
    "lab_check_info",
    "lab_drain",
    "lab_image",
    "lab_info",
    "lab_kube_proxy",
    "lab_logs",
    "lab_nodes",
    "lab_record",
    "lab_vm",
    "lab_vm_info",
    "node_credentials_info",
    "playbook_message",
    "playbook_report",
    "playbook_request",
    "readiness_info",
}
ACTIONS = {
    "fleet_slice",
    "kube_proxy_change",
    "playbook_message",
    "playbook_report",
    "playbook_request",
}  # they run on the controller
VERBS = """
Add Annotate Answer Back Build Check Collect Compose Configure Connect Create Decide Drain Drill Judge Keep Limit List Point Prepare Print Program
Provide Read Remove Report Restore Roll Run Set Show Size Split Stop Switch Take Trace
""".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def documented() -> dict[str, dict[str, Any]]:
    """By module, its documentation with its fragments."""
    names = [f"ballast.kube.{name}" for name in MODULES]
    program = str(Path(sys.executable).with_name("ansible-doc"))
    shown = subprocess.run([program, "--json", *names], cwd=ROOT, capture_output=True, check=True).stdout
    return {name.rpartition(".")[2]: page["doc"] for name, page in json.loads(shown).items()}


def is_imperative(line: str) -> bool:
    return line.split(maxsplit=1)[0].rstrip(",").capitalize() in VERBS


def test_a_short_description_is_one_imperative_line(documented: dict[str, dict[str, Any]]) -> None:
    lines = {name: page["short_description"].removeprefix("Internal: ") for name, page in documented.items()}
    assert {name: line for name, line in lines.items() if not is_imperative(line)} == {}
    assert [line for line in lines.values() if line.endswith(".") or len(line) > 110] == []


def test_modules_for_our_own_playbooks_are_marked_as_internal(documented: dict[str, dict[str, Any]]) -> None:
    marked = {name for name, page in documented.items() if page["short_description"].startswith("Internal: ")}
    assert marked == INTERNAL


def test_entry_points_of_roles_and_playbooks_begin_with_a_verb_too() -> None:
    lines: dict[str, str] = {}
    for role in sorted((ROOT / "roles").iterdir()):
        specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
        lines |= {f"{role.name}.{point}": spec["short_description"] for point, spec in specs.items()}
    for playbook in (ROOT / "playbooks").glob("*.yml"):
        lines[playbook.name] = playbook.read_text(encoding="utf-8").splitlines()[1].removeprefix("# ")
    assert {name: line for name, line in lines.items() if not is_imperative(line)} == {}


def options_below(options: Optional[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, row in (options or {}).items():
        yield name, row
        yield from options_below(row.get("suboptions"))


def test_a_default_that_always_holds_is_declared(documented: dict[str, dict[str, Any]]) -> None:
    """Tools read `default` and not sentences. A default that depends on something is a sentence, and says on what."""
    said = re.compile(r"default is V\([^)]*\)\.$|, the default,|by default\.$", re.MULTILINE)
    rows = [(name, *row) for name, page in documented.items() for row in options_below(page["options"])]
    lines = {
        f"{name}: {option}": [row["description"]] if isinstance(row["description"], str) else row["description"]
        for name, option, row in rows
        if row.get("default") is None and option != "metrics"  # which has none
    }
    assert [place for place, text in lines.items() if said.search("\n".join(text))] == []


def membership(page: dict[str, Any]) -> set[str]:
    row = page.get("attributes", {}).get("action_group", {"membership": []})
    return {name.removeprefix("ballast.kube.") for name in row["membership"]}


def test_a_group_has_the_modules_that_say_so_and_they_share_options(documented: dict[str, dict[str, Any]]) -> None:
    """A default of a group is given to all its modules, so each must accept what they are grouped for."""
    grouped = {name: set(members) for name, members in GROUPS.items() if name not in FORMER_GROUPS}
    assert {name for name, page in documented.items() if membership(page)} == set.union(*grouped.values())
    for group, members in grouped.items():
        pages = [documented[name] for name in members]
        assert [membership(page) for page in pages] == [members] * len(pages), group
        assert f"group/ballast.kube.{group})" in pages[0]["attributes"]["action_group"]["description"]
        options = [page["options"] for page in pages]
        shared = set(options[0]).intersection(*options[1:])
        described = [{name: (row[name]["type"], row[name].get("default")) for name in shared} for row in options]
        assert shared, group
        assert described == [described[0]] * len(options), group


def test_all_modules_of_a_lab_that_know_its_directory_are_in_its_group(documented: dict[str, dict[str, Any]]) -> None:
    assert set(GROUPS["lab"]) == {name for name, page in documented.items() if "lab_dir" in (page["options"] or {})}


class _Started(Exception):
    """A module has said which arguments it accepts."""


def accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The argument spec that a module gives to AnsibleModule."""
    given: list[dict[str, Any]] = []

    def start(**arguments: Any) -> None:
        given.append(arguments["argument_spec"])
        raise _Started

    monkeypatch.setattr(run, "AnsibleModule", start)
    monkeypatch.setattr(basic, "_load_params", dict)  # where the module `node` looks for what its action plugin says
    with pytest.raises(_Started):
        import_module(f"ansible_collections.ballast.kube.plugins.modules.{name}").main()
    return given[0]


KEYS = ("type", "elements", "default", "required", "choices", "aliases")
EMPTY = {"required": False, "aliases": []}


def table(options: dict[str, Any], below: str) -> dict[str, dict[str, Any]]:
    """By path of an option, what both sides say of it. A text is the type that is not said."""
    found = {}
    for name, row in (options or {}).items():
        said = {key: row[key] for key in KEYS if row.get(key) is not None and row[key] != EMPTY.get(key)}
        found[name] = {"type": "str", **said, "choices": sorted(said.get("choices", ()))}
        found |= {f"{name}.{inner}": shown for inner, shown in table(row.get(below), below).items()}
    return found


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ACTIONS])
def test_documentation_and_accepted_arguments_agree(
    name: str, documented: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table(documented[name]["options"], "suboptions") == table(accepted(name, monkeypatch), "options")


def test_documentation_and_accepted_arguments_of_the_change_on_the_controller_agree(
    documented: dict[str, dict[str, Any]],
) -> None:
    assert table(documented["kube_proxy_change"]["options"], "suboptions") == table(CHANGE_SPEC, "options")


def test_former_names_of_modules_run_the_new_one_and_warn(tmp_path: Path) -> None:
    """No module has an option `nonsense`: the refusal comes from one that was found and ran."""
    playbook = tmp_path / "play.yml"
    required = {name: {"plane_dir": "/srv/none"} for name in ("plane", "plane_info")}
    given = {name: {"nonsense": 1, **required.get(name, {})} for name in FORMER_MODULES}
    tasks = [{f"ballast.kube.{name}": options, "ignore_errors": True} for name, options in given.items()]
    here = {"ansible_python_interpreter": sys.executable, "ansible_connection": "local"}
    playbook.write_text(
        json.dumps([{"hosts": "localhost", "gather_facts": False, "vars": here, "tasks": tasks}]), encoding="utf-8"
    )
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    environment = {**os.environ, "ANSIBLE_DEPRECATION_WARNINGS": "true", "COLUMNS": "1000"}
    run = subprocess.run(
        [program, str(playbook)], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    said = run.stdout + run.stderr
    for former, new in FORMER_MODULES.items():
        assert f"Unsupported parameters for (ballast.kube.{former}) module: nonsense" in said
        assert f"Its name is now {new}." in said
    assert said.count(f"version {REMOVAL}") >= len(FORMER_MODULES)


def aliases(name: str, options: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(module, former name, name) of all options, those below others too."""
    for option, row in (options or {}).items():
        deprecated = {
            one["name"]: (one["version"], one["collection_name"]) for one in row.get("deprecated_aliases", ())
        }
        for alias in row.get("aliases", ()):
            assert deprecated[alias] == (REMOVAL, "ballast.kube"), (name, alias)
            yield name, alias, option
        yield from aliases(name, row.get("options", {}))


def test_the_upgrade_notes_have_all_former_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in the first cell of an option's row are its modules; without any, all that have it."""
    page = (ROOT / "docs/upgrade.md").read_text(encoding="utf-8")
    cells = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    names = {(row[0][0], row[1][0]) for row in cells if len(row) == 3 and row[0] and row[1]}
    options = {(module, row[1][0], row[2][0]) for row in cells if len(row) == 4 and row[1] for module in row[0] or [""]}
    former = [row for name in MODULES if name not in ACTIONS for row in aliases(name, accepted(name, monkeypatch))]
    assert [row for row in former if not {row, ("", *row[1:])} & options] == []
    assert {*FORMER_GROUPS.items(), *((old, new.rpartition(".")[2]) for old, new in FORMER_MODULES.items())} <= names


def test_roles_take_their_former_variables_too() -> None:
    page = (ROOT / "docs/upgrade.md").read_text(encoding="utf-8").partition("## Variables")[2].partition("\n## ")[0]
    roles = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("roles/*/tasks/main.yml"))
    rows = [(former, new) for former, new in re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE)]
    assert len(rows) == 5
    assert [row for row in rows if f"{{{{ {row[1]} or {row[0]} | default('') or omit }}}}" not in roles] == []
