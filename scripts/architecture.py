# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw docs/architecture.svg from the code: each engine, what an operator reaches it by, and what it needs of the others.

    python -m scripts.architecture            # draw
    python -m scripts.architecture --check    # say whether the figure is another one than the code gives; status 1 if so

Nothing is listed here by feature. Imports are read from the syntax trees of plugins/, and what plays and roles use from their lines. A
playbook or role is in the row of the engine with the module of the most similar name.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from scripts.written import ROOT, run

FIGURE = ROOT / "docs" / "architecture.svg"
UTILS = Path("plugins/module_utils")
RUN_LOOP = "_ansible"  # every module uses it, so its column would be full of dots
OTHER_PLUGINS = ("action", "become", "callback", "inventory")

_MODULE = re.compile(r"^\s*(?:-\s+)?ballast\.kube\.(\w+):", re.MULTILINE)
_ROLE = re.compile(r"\b(?:role|name):\s*ballast\.kube\.(\w+)\s*$", re.MULTILINE)
_PLAYBOOK = re.compile(r"\bimport_playbook:\s*ballast\.kube\.(\w+)\s*$", re.MULTILINE)
_FILE = re.compile(r"(?:import_playbook|import_tasks|include_tasks):\s*([\w/.]+\.yml)\s*$", re.MULTILINE)


@dataclass
class Row:
    """An engine, `_NAME` of module_utils, with everything that uses it."""

    engine: str
    playbooks: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)  # engines
    uses: set[str] = field(default_factory=set)  # engines whose modules its playbooks and roles run


def imported(path: Path, root: Path) -> set[str]:
    """Packages of module_utils that a file in plugins/ imports."""
    inside = path.relative_to(root / UTILS).parts if root / UTILS in path.parents else ()
    packages = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        names = (node.module or "").split(".") if node.module else []
        if node.level and inside:
            full = [*inside[: len(inside) - node.level], *names]
            packages.update(full[:1] or [alias.name for alias in node.names])
        elif "module_utils" in names:
            packages.update(names[names.index("module_utils") + 1 :][:1])
    return packages


def likeness(name: str, module: str) -> float:
    """The share of common first words in all words of both: lab_stop belongs to lab and lab_info, not to lab_vm."""
    ours, theirs = name.split("_"), module.removesuffix("_info").split("_")
    shared = len(os.path.commonprefix([ours, theirs]))
    return shared / (len(ours) + len(theirs) - shared)


class Code:
    """The contents of a collection's directory, by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.engines = sorted(path.name for path in (root / UTILS).iterdir() if (path / "__init__.py").is_file())
        self.modules = {path.stem: self._home(path) for path in sorted((root / "plugins/modules").glob("*.py"))}
        self.roles = {
            path.name: self._files(path) for path in sorted((root / "roles").iterdir()) if (path / "tasks").is_dir()
        }
        self.playbooks = {path.stem: [path] for path in sorted((root / "playbooks").glob("*.yml"))}

    def _home(self, path: Path) -> str:
        """The engine of a module; of a module that is only documentation, the engine of its action plugin."""
        action = self.root / "plugins/action" / path.name
        engines = imported(path, self.root) or (imported(action, self.root) if action.is_file() else set())
        homes = sorted(engines - {RUN_LOOP, "_core"})
        if not homes and action.is_file():
            return RUN_LOOP  # it uses several engines
        if len(homes) != 1:
            sys.exit(
                f"architecture: {path.relative_to(self.root)} imports {' and '.join(homes) or 'no engine'}; a module is of one engine"
            )
        return homes[0]

    @staticmethod
    def _files(role: Path) -> list[Path]:
        return sorted([*role.glob("tasks/**/*.yml"), *role.glob("handlers/*.yml")])

    def used(self, files: list[Path], seen: frozenset[Path] = frozenset()) -> set[str]:
        """Modules that playbooks or tasks run, including those of included files and roles."""
        names: set[str] = set()
        for path in files:
            if path in seen or not path.is_file():
                continue
            seen = seen | {path}
            text = re.sub(r"^\s*#.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            names.update(name for name in _MODULE.findall(text) if name in self.modules)
            names |= self.used([path.parent / name for name in _FILE.findall(text)], seen)
            for named, known in ((_ROLE, self.roles), (_PLAYBOOK, self.playbooks)):
                for name in named.findall(text):
                    names |= self.used(known.get(name, []), seen)
        return names

    def home(self, name: str, files: list[Path]) -> tuple[str, set[str]]:
        """The engine in whose row a playbook or role is, and all engines that it uses."""
        modules = sorted(self.used(files))
        if not modules:
            sys.exit(f"architecture: {name} runs no module of this collection")
        engines = [self.modules[module] for module in modules]
        closest = max(modules, key=lambda module: (likeness(name, module), engines.count(self.modules[module])))
        return self.modules[closest], set(engines)


def read(root: Path) -> list[Row]:
    """A row for each engine: the one that needs most of the others first, and the one that all others need last."""
    code = Code(root)
    rows = {engine: Row(engine) for engine in code.engines}
    for row in rows.values():
        files = sorted((root / UTILS / row.engine).rglob("*.py"))
        row.imports = set().union(*(imported(path, root) for path in files)) & set(rows) - {row.engine}
    for module, engine in code.modules.items():
        rows[engine].modules.append(module)
    for kind in ("playbooks", "roles"):
        for name, files in getattr(code, kind).items():
            engine, uses = code.home(name, files)
            getattr(rows[engine], kind).append(name)
            rows[engine].uses |= uses - {engine}
    for kind in OTHER_PLUGINS:
        for path in sorted((root / "plugins" / kind).glob("*.py")):
            engines = imported(path, root)
            if not engines and path.stem in code.modules:
                continue  # it only starts the module of its name
            for engine in engines or {RUN_LOOP}:  # a plugin that imports no engine
                rows[engine].modules.append(f"{kind}: {path.stem}")
    rows[RUN_LOOP].modules.insert(0, f"all {len(code.modules)} modules")
    return sorted(
        rows.values(),
        key=lambda row: (row.engine == "_core", row.engine == RUN_LOOP, -len(row.imports | row.uses), row.engine),
    )


# The drawing: rows of text, with a matrix beside them; thirteen engines with arrows between them would be unreadable.

LINE, PAD, TOP = 16, 8, 128
COLUMNS = (("Playbooks", 12, "playbooks"), ("Roles", 178, "roles"), ("Modules", 338, "modules"))
ENGINE, MATRIX, CELL = 536, 664, 26
STYLE = """<style>
text { font: 12px sans-serif; fill: #1f2328 }
.head { font-weight: bold; font-size: 13px } .quiet { fill: #59636e } .engine { font-family: monospace; font-weight: bold }
.page { fill: #ffffff } .band { fill: #f3f5f7 } .line { stroke: #d1d9e0 } .dot { fill: #0b6e99 } .ring { fill: none; stroke: #c1502e; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9198a1 }
.page { fill: #0d1117 } .band { fill: #161b22 } .line { stroke: #3d444d } .dot { fill: #58b6dd } .ring { stroke: #f0896a }
}
</style>"""


def _text(x: float, y: float, text: str, cls: str = "", more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{cls}{chr(34)}" if cls else ""}{more}>{escape(text)}</text>'


def _mark(x: float, y: float, row: Row, other: str) -> Iterator[str]:
    """A dot if the engine imports the other; a ring if only its playbooks and roles use the other."""
    if other in row.imports:
        yield f'<circle cx="{x:g}" cy="{y:g}" r="5" class="dot"><title>{row.engine} imports {other}</title></circle>'
    elif other in row.uses:
        yield f'<circle cx="{x:g}" cy="{y:g}" r="5" class="ring"><title>plays of {row.engine} run modules of {other}</title></circle>'


def draw(rows: list[Row]) -> str:
    columns = [row.engine for row in rows if row.engine != RUN_LOOP]
    width = MATRIX + CELL * len(columns) + 64  # the last heading is slanted beyond the matrix
    heights = [max(len(row.playbooks), len(row.roles), len(row.modules), 1) * LINE + 2 * PAD for row in rows]
    height = TOP + sum(heights) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">',
        '<title id="title">The engines of ballast.kube, what they are reached by, and which of them need which others</title>',
        STYLE,
        f'<rect width="{width}" height="{height}" class="page"/>',
        *(_text(x, TOP - 12, f"{name} →", "head") for name, x, _field in COLUMNS),
        _text(ENGINE, TOP - 12, "Engine, needs →", "head"),
    ]
    for number, name in enumerate(columns):
        x = MATRIX + CELL * number + CELL / 2
        out.append(_text(x, TOP - 10, name, "engine", f' transform="rotate(-55 {x:g} {TOP - 10})"'))
    y = TOP
    for number, (row, tall) in enumerate(zip(rows, heights)):
        if number % 2 == 0:
            out.append(f'<rect x="0" y="{y}" width="{width}" height="{tall}" class="band"/>')
        for _name, x, kind in COLUMNS:
            out += (_text(x, y + PAD + LINE * line + 12, text) for line, text in enumerate(getattr(row, kind)))
        out.append(_text(ENGINE, y + PAD + 12, row.engine, "engine"))
        for place, other in enumerate(columns):
            out += _mark(MATRIX + CELL * place + CELL / 2, y + PAD + 8, row, other)
        y += tall
    out.append(f'<line x1="0" y1="{y}" x2="{width}" y2="{y}" class="line"/>')
    out.append(f'<circle cx="18" cy="{y + 20}" r="5" class="dot"/>')
    out.append(_text(30, y + 24, "the engine imports it", "quiet"))
    out.append(f'<circle cx="190" cy="{y + 20}" r="5" class="ring"/>')
    out.append(_text(202, y + 24, "only playbooks and roles of the row run its modules", "quiet"))
    return "\n".join([*out, "</svg>", ""])


def files() -> Iterator[tuple[Path, str]]:
    yield FIGURE, draw(read(ROOT))


def main(arguments: list[str]) -> int:
    return run("architecture", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
