"""Try the tests of pure engines with mutants: copies of a file with one small fault each, which a test must notice.

    python3 scripts/mutants.py             a line for each file of tests/mutants.toml
    python3 scripts/mutants.py NAME ...    files whose path contains a NAME, with a diff for each mutant that survived

The status is 1 where tests notice less than 90 % of a file's mutants, 2 where that could not be measured. mutmut makes the
mutants and runs the tests that call the changed function. It changes bodies of functions: neither constants of a module nor
functions with a decorator, so decorators that do not change a result are removed first. All happens in a copy below .build.

`[[equivalent]]` rows of tests/mutants.toml are mutants that nobody can tell from the original, each with its reason: they do
not count. A row that fits no survivor is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/mutants.toml"
MUTMUT = ROOT / ".build/mutants/environment/bin/mutmut"
WORK = ROOT / ".build/mutants/work"
COLLECTION = "ansible_collections/ballast/kube"
LEAST = 90.0  # percent
# States in which a mutant was detected. "check was interrupted" is pytest's result for a module that cannot be imported.
KILLED = ("killed", "timeout", "segfault", "check was interrupted by user")
# Decorators that pause the garbage collector or cache results: without them the function returns the same.
DECORATORS = re.compile(r"^@(pause_collection\(\)|lru_cache\(maxsize=\d+\))\n", re.MULTILINE)


@dataclass(frozen=True)
class Equivalent:
    before: str  # the lines that the mutant changes, without indentation, joined by a space
    after: str
    why: str


@dataclass(frozen=True)
class Engine:
    path: str  # below plugins/module_utils
    tests: tuple[str, ...]  # below tests/unit
    equivalent: tuple[Equivalent, ...]


@dataclass(frozen=True)
class Tried:
    """The result for the mutants of a file. `survivors` are diffs."""

    mutants: int
    survivors: tuple[str, ...]

    @property
    def rate(self) -> float:
        return 100.0 * (self.mutants - len(self.survivors)) / self.mutants


class MeasureError(Exception):
    """No rate could be measured."""


def read_table(text: str) -> list[Engine]:
    rows = tomllib.loads(text)
    equivalent = rows.get("equivalent", [])
    strangers = {row["file"] for row in equivalent} - {row["path"] for row in rows["file"]}
    if strangers:
        raise MeasureError(f"tests/mutants.toml: no [[file]] row for {', '.join(sorted(strangers))}")
    return [
        Engine(
            row["path"],
            tuple(row["tests"]),
            tuple(
                Equivalent(one["before"], one["after"], one["why"]) for one in equivalent if one["file"] == row["path"]
            ),
        )
        for row in rows["file"]
    ]


def choose(engines: Sequence[Engine], names: Sequence[str]) -> list[Engine]:
    unknown = [name for name in names if not any(name in engine.path for engine in engines)]
    if unknown:
        raise MeasureError(f"no file of tests/mutants.toml has {', '.join(unknown)} in its path")
    return [engine for engine in engines if not names or any(name in engine.path for name in names)]


def parse_results(text: str) -> dict[str, str]:
    """The state of each mutant by its name, from `mutmut results`."""
    return dict(re.findall(r"^ +(\S+__mutmut_\d+): (.+)$", text, flags=re.MULTILINE))


def changed_lines(diff: str) -> tuple[str, str]:
    """What a diff removes and adds, in the form of the table's rows."""

    def of(sign: str) -> str:
        lines = [line[1:].strip() for line in diff.splitlines() if line.startswith(sign)]
        return " ".join(line for line in lines if not line.startswith(sign * 2))

    return of("-"), of("+")


def judge(mutants: int, survivors: Iterable[str], equivalent: Sequence[Equivalent]) -> Tried:
    """The result without equivalent mutants."""
    diffs = list(survivors)
    known = {(row.before, row.after) for row in equivalent}
    needless = known - {changed_lines(diff) for diff in diffs}
    if needless:
        rows = "; ".join(f"{before!r} -> {after!r}" for before, after in sorted(needless))
        raise MeasureError(f"tests/mutants.toml: no survivor fits the [[equivalent]] row {rows}\n  do:    remove it")
    counted = tuple(diff for diff in diffs if changed_lines(diff) not in known)
    return Tried(mutants - (len(diffs) - len(counted)), counted)


def copy_checkout() -> None:
    """Copy the files that git knows as a collection, as mutants have the names under which tests import them."""
    shutil.rmtree(WORK, ignore_errors=True)
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, WORK / COLLECTION / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def settings(engine: Engine) -> str:
    """pyproject.toml for the copy."""
    tests = [f"{COLLECTION}/tests/unit/{name}" for name in engine.tests]
    return f"""\
[tool.pytest.ini_options]
addopts = "--import-mode=importlib -p no:cacheprovider"
pythonpath = [".", "{COLLECTION}"]

[tool.mutmut]
source_paths = ["{COLLECTION}/plugins/module_utils/{engine.path}"]
also_copy = ["ansible_collections"]
process_isolation = "forkserver"
pytest_add_cli_args_test_selection = {tests!r}
"""


def mutmut(*arguments: str) -> str:
    done = subprocess.run(
        [str(MUTMUT), *arguments], cwd=WORK, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise MeasureError("\n".join(done.stdout.replace("\r", "\n").splitlines()[-40:]))
    return done.stdout


def try_tests(engine: Engine) -> Tried:
    shutil.rmtree(WORK / "mutants", ignore_errors=True)
    (WORK / "pyproject.toml").write_text(settings(engine), encoding="utf-8")
    source = WORK / COLLECTION / "plugins/module_utils" / engine.path
    source.write_text(DECORATORS.sub("", source.read_text(encoding="utf-8")), encoding="utf-8")
    mutmut("run", "--max-children", str(len(os.sched_getaffinity(0))))
    states = parse_results(mutmut("results", "--all", "true"))
    if not states:
        raise MeasureError(f"{engine.path}: mutmut made no mutant")
    survivors = [mutmut("show", name) for name, state in states.items() if state not in KILLED]
    return judge(len(states), survivors, engine.equivalent)


def main(names: Sequence[str]) -> int:
    engines = choose(read_table(TABLE.read_text(encoding="utf-8")), names)
    copy_checkout()
    low = []
    for engine in engines:
        tried = try_tests(engine)
        if names:
            print(*tried.survivors, sep="\n")
        killed = tried.mutants - len(tried.survivors)
        print(
            f"{engine.path:<36} {tried.mutants:>4} mutants  {killed:>4} killed  {len(tried.survivors):>3} survived"
            f"  {len(engine.equivalent):>2} equivalent  {tried.rate:5.1f} %",
            flush=True,
        )
        if tried.rate < LEAST:
            low.append(engine.path)
    if low:
        print(
            f"\nless than {LEAST:.0f} %: {', '.join(low)}\n  do:    make mutants ARGS={low[0]}, and test what it shows"
        )
    return 1 if low else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except MeasureError as error:
        print(f"mutants: {error}", file=sys.stderr)
        sys.exit(2)
