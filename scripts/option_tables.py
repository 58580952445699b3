# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the tables of variables into the pages that have marks for them, from the argument specs.

    python -m scripts.option_tables            # write
    python -m scripts.option_tables --check    # say which pages would change; status 1 if any

The marks are lines of their own: `<!-- variables:NAME begin -->` and `end`. NAME is a role, a prefix of playbooks' variables in
plugins/plugin_utils/fleet/variables.yml, or PREFIX for what playbooks with batches share; further names after it, with commas
between, are the variables to show.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from scripts import markdown
from scripts.written import ROOT, between_marks, run

sys.path.insert(0, str(ROOT / ".build" / "collections"))  # made by `make env`

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.variables import OWN, known_names

MODULES = ROOT / "plugins/modules"
FRAGMENTS = ROOT / "plugins/doc_fragments"
_MARK = re.compile(r"^<!-- variables:([\w,]+) begin -->$", re.MULTILINE)
_MAKE = re.compile(
    r"\$\(call lab-(?:option,|file,\$\()(?P<make>\w+)\)?,(?P<name>\w+)\)|-e '?(?P<name2>\w+)=\"?\$\((?P<make2>\w+)\)"
)
_COMMON = "PREFIX"
# Modules whose options are variables of a prefix, as in survey_page; if two modules share an option, the first documents it.
_WITH_MODULES = {"kube_proxy": ("kube_proxy_change", "kube_proxy_cleanup")}
_WITH_BATCHES = ("kube_proxy", "image_pull_proxy", "balloons")
_HEAD = "| variable | type | default | description |\n|---|---|---|---|\n"
Spec = Mapping[str, Any]


class Row(NamedTuple):
    name: str
    spec: Spec
    note: str = ""


def pages() -> Iterator[Path]:
    for place in markdown.pages():
        if _MARK.search(place.read_text(encoding="utf-8")):
            yield place


def table(wanted: str) -> str:
    """The table for the text of a mark: a role, a prefix or PREFIX, and the variables to show."""
    name, *chosen = wanted.split(",")
    if name == _COMMON:
        rows = _of_batches()
    elif (ROOT / "roles" / name).is_dir() and not chosen:
        rows = _of_role(name)
    else:
        rows = _of_playbooks(name)
    make = _make_names()
    return _HEAD + "".join(_line(row, make) for row in rows if not chosen or row.name in chosen)


def _own() -> Mapping[str, Mapping[str, Spec]]:
    own: Mapping[str, Mapping[str, Spec]] = yaml.safe_load((ROOT / OWN).read_text(encoding="utf-8"))
    return own


def _of_batches() -> Iterator[Row]:
    first, *others = (_own()[prefix] for prefix in _WITH_BATCHES)
    return (Row(f"{_COMMON}_{name}", spec) for name, spec in first.items() if all(name in other for other in others))


def _of_role(name: str) -> Iterator[Row]:
    """Each variable once, with the entry points that have it if `main` does not."""
    path = ROOT / f"roles/{name}/meta/argument_specs.yml"
    entries: Mapping[str, Spec] = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
    variables = dict.fromkeys(variable for entry in entries.values() for variable in entry.get("options", {}))
    for variable in variables:
        having = [entry for entry, value in entries.items() if variable in value.get("options", {})]
        note = "" if "main" in having else f"Entry point {' and '.join(f'`{entry}`' for entry in having)}."
        yield from _with_parts(variable, entries[having[0]]["options"][variable], note)


def _of_playbooks(prefix: str) -> Iterator[Row]:
    """Variables of the playbooks themselves, then those of their role or modules."""
    own = {f"{prefix}_{name}": spec for name, spec in _own()[prefix].items()}
    for name, spec in own.items():
        yield from _with_parts(name, spec)
    if (ROOT / "roles" / prefix).is_dir():
        yield from (row for row in _of_role(prefix) if row.name not in own)
    elif prefix in _WITH_MODULES:
        options = _module_options(prefix)
        names = (name.removeprefix(f"{prefix}_") for name in known_names(LocalHost(), [prefix]) if name not in own)
        for name in names:
            yield from _with_parts(f"{prefix}_{name}", options[name])


def _with_parts(name: str, spec: Spec, note: str = "") -> Iterator[Row]:
    yield Row(name, spec, note)
    parts = "[]" if spec.get("type") == "list" else ""
    for part, inner in spec.get("options", {}).items():
        yield from _with_parts(f"{name}{parts}.{part}", inner)


def _module_options(prefix: str) -> dict[str, Spec]:
    """Options by name, from the modules that playbooks with the prefix run."""
    found: dict[str, Spec] = {}
    for name in _WITH_MODULES[prefix]:
        document = documentation(MODULES / f"{name}.py")
        for fragment in document.get("extends_documentation_fragment", ()):
            file, _dot, variable = fragment.removeprefix("ballast.kube.").partition(".")
            shared = documentation(FRAGMENTS / f"{file}.py", (variable or "documentation").upper())
            document["options"] = {**shared.get("options", {}), **document.get("options", {})}
        found = {**document["options"], **found}
    return found


def documentation(path: Path, variable: str = "DOCUMENTATION") -> dict[str, Any]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == variable:
            page: dict[str, Any] = yaml.safe_load(ast.literal_eval(node.value))
            return page
    raise LookupError(f"{path} has no {variable}")


def _make_names() -> dict[str, str]:
    """The make variable for each playbook variable."""
    text = (ROOT / "mk/lab.mk").read_text(encoding="utf-8")
    return {match["name"] or match["name2"]: match["make"] or match["make2"] for match in _MAKE.finditer(text)}


def _line(row: Row, make: Mapping[str, str]) -> str:
    kind = str(row.spec.get("type", "str"))
    if row.spec.get("elements"):
        kind = f"{kind} of {row.spec['elements']}"
    name = f"`{row.name}`" + (f" (`{make[row.name]}`)" if row.name in make else "")
    cells = (name, kind, _default(row.spec), _description(row))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _default(spec: Spec) -> str:
    if spec.get("required"):
        return "required"
    default = spec.get("default")
    if default in (None, ""):
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _description(row: Row) -> str:
    given = row.spec.get("description", "")
    texts = [given] if isinstance(given, str) else list(given)
    choices = [choice for choice in row.spec.get("choices", ()) if choice != ""]
    if choices:
        texts.append(f"One of {', '.join(f'`{choice}`' for choice in choices)}.")
    return " ".join(as_markdown(" ".join(text.split())) for text in (*([row.note] if row.note else []), *texts))


def as_markdown(text: str) -> str:
    """A text with Ansible's markup, as Markdown."""
    text = re.sub(r"\bL\(([^,()]*), *([^()]*)\)", r"[\1](\2)", text)
    text = re.sub(r"\bO\((?:([\w.]+)#\w+:)([^()]*)\)", r"`\2` of `\1`", text)
    text = re.sub(r"\b(?:B|I)\(([^()]*)\)", r"*\1*", text)
    return re.sub(r"\b(?:C|E|M|O|P|RV|U|V)\(((?:[^()\\]|\\.|\([^()]*\))*)\)", lambda match: _code(match[1]), text)


def _code(text: str) -> str:
    return f"`{re.sub(r'[#].*$', '', text) if '#role' in text else text.replace(chr(92), '')}`"


def files() -> Iterator[tuple[Path, str]]:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for wanted in _MARK.findall(text):
            begin, end = (f"<!-- variables:{wanted} {mark} -->" for mark in ("begin", "end"))
            text = between_marks(text, page, begin, end, "\n" + table(wanted))
        yield page, text


def main(arguments: list[str]) -> int:
    return run("option_tables", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
