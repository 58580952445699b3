"""Whether what we pin is known to be bad.

    python -m scripts.audit pins    by requirements/known-bad.toml, which needs no network: the check of that name
    python -m scripts.audit         by that table, and by what pip-audit, govulncheck and Go say

pip-audit asks the database of OSV, govulncheck that of Go (GOVULNDB names a copy, as a file:// URL too). What could not be asked
is said, and is no failure; what is found is one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tomllib
from packaging.version import Version

from scripts.env import AUDIT, ROOT
from scripts.toolchain import TOOLCHAIN, committed, parse_requirements, tags

REQUIREMENTS = ROOT / "requirements"
GOVULNCHECK = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"
_SECONDS = 1800
_FOUND = 3  # exit status of govulncheck when it finds something


@dataclass(frozen=True)
class Bad:
    name: str  # of a Go module, or a Python package in lower case
    fixed: str
    since: str  # "" if every older version is bad
    ids: tuple[str, ...]
    what: str
    source: str

    def covers(self, pin: Pin) -> bool:
        version = key(pin.version)
        return pin.name == self.name and version < key(self.fixed) and (not self.since or key(self.since) <= version)


@dataclass(frozen=True)
class Pin:
    name: str
    version: str
    where: str  # the requirements file, or family/version of the toolchain


@dataclass(frozen=True)
class Accepted:
    id: str
    where: tuple[str, ...]
    why: str
    not_linked: tuple[str, ...]  # packages of Go


def key(version: str) -> Version:
    """A version that compares. A Go pseudo-version, v0.0.0-20250303144028-a0af3efb3deb, is older than the release that it names."""
    release, dash, _rest = version.removeprefix("v").partition("-")
    return Version(f"{release.partition('+')[0]}{'.dev0' if dash else ''}")


def parse_table(text: str) -> tuple[list[Bad], list[Accepted]]:
    """The rows of known-bad.toml."""
    table = tomllib.loads(text)
    bad = [
        Bad(
            name=row["module"] if "module" in row else normal(row["package"]),
            fixed=row["fixed"],
            since=row.get("from", ""),
            ids=tuple(row["ids"]),
            what=row["what"],
            source=row["source"],
        )
        for row in table["bad"]
    ]
    accepted = [
        Accepted(
            id=row["id"],
            where=tuple(_places(row["where"])),
            why=row["why"],
            not_linked=tuple(row.get("not_linked", ())),
        )
        for row in table["accepted"]
    ]
    return bad, accepted


def _places(patterns: Iterable[str]) -> Iterator[str]:
    """`kubernetes/1.37.*` stands for every matching folder of the toolchain."""
    for pattern in patterns:
        folders = sorted(TOOLCHAIN.glob(pattern)) if "*" in pattern else []
        yield from [str(folder.relative_to(TOOLCHAIN)) for folder in folders] or [pattern]


def normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def parse_constraints(text: str, *, where: str) -> list[Pin]:
    return [
        Pin(normal(name), version, where) for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.M)
    ]


def parse_go_mod(text: str, *, where: str) -> list[Pin]:
    """The modules that are built. A replacement counts instead of the replaced module, whose own version is irrelevant."""
    replaced = re.findall(r"^(?:replace\s+|\t)(\S+)(?:\s+v\S+)?\s+=>\s+(\S+)\s+v(\S+)", text, re.M)
    gone = {name for name, _to, _version in replaced}
    required = parse_requirements(text)
    return [
        *(Pin(name, version, where) for name, version in required.items() if name not in gone),
        *(Pin(to, version, where) for _name, to, version in replaced),
    ]


def pins() -> Iterator[Pin]:
    for path in sorted(REQUIREMENTS.glob("constraints*.txt")):
        yield from parse_constraints(path.read_text(encoding="utf-8"), where=path.name)
    for path in sorted(TOOLCHAIN.glob("*/*/go.mod")):
        yield from parse_go_mod(path.read_text(encoding="utf-8"), where=str(path.parent.relative_to(TOOLCHAIN)))


def judge(pins_in_use: list[Pin], bad: list[Bad], accepted: list[Accepted]) -> list[str]:
    """Problems, in words: bad pins that are not accepted, and acceptances that are no longer needed. Pure."""
    needed = {(row.id, place) for row in accepted for place in row.where}
    used: set[tuple[str, str]] = set()
    problems = []
    for pin in pins_in_use:
        for row in bad:
            if not row.covers(pin):
                continue
            reasons = {(id, pin.where) for id in row.ids} & needed
            used |= reasons
            if not reasons:
                problems.append(
                    f"{pin.where}: {pin.name} {pin.version} is known to be bad: {row.what}\n"
                    f"  found: {', '.join(row.ids)}, fixed in {row.fixed}; {row.source}\n"
                    f"  do:    pin {row.fixed} or later; docs/CONTRIBUTING.md, Pins"
                )
    problems += [
        f"requirements/known-bad.toml accepts {id} for {place}, where nothing is bad any more"
        for id, place in sorted(needed - used)
    ]
    return problems


def check_pins() -> int:
    bad, accepted = parse_table((REQUIREMENTS / "known-bad.toml").read_text(encoding="utf-8"))
    all_pins = list(pins())
    problems = judge(all_pins, bad, accepted)
    print("\n".join([*problems, f"pins: {len(all_pins)} compared with {len(bad)} rows, {len(problems)} problems"]))
    return 1 if problems else 0


def ask_pip_audit() -> int:
    subprocess.run([sys.executable, str(ROOT / "scripts/env.py"), "audit"], check=True)
    worst = 0
    for path in sorted(REQUIREMENTS.glob("constraints*.txt")):
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder) / "answer.json"
            argv = [
                str(AUDIT / "bin/pip-audit"),
                "--vulnerability-service=osv",
                "--disable-pip",
                "--require-hashes",
                "--progress-spinner=off",
            ]
            done = run([*argv, "--requirement", str(path), "--format=json", "--output", str(answer)])
            if not answer.is_file() or not answer.stat().st_size:
                print(f"pip-audit: {path.name} was not asked: {last_line(done.stderr)}")
                continue
            rows = json.loads(answer.read_text(encoding="utf-8"))["dependencies"]
        for row in rows:
            for fault in row.get("vulns", []):
                worst = 1
                print(
                    f"pip-audit: {path.name}: {row['name']} {row['version']}: {fault['id']}, fixed in {', '.join(fault['fix_versions']) or 'none'}"
                )
            if row.get("skip_reason"):
                print(f"pip-audit: {path.name}: {row['name']} was not asked: {row['skip_reason']}")
        print(f"pip-audit: {path.name}: {len(rows)} packages asked")
    return worst


def ask_govulncheck() -> int:
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        got = run(["go", "install", GOVULNCHECK], env={"GOBIN": folder, "GOFLAGS": "-mod=mod"})
        if got.returncode != 0:
            print(f"govulncheck: not asked: {last_line(got.stderr)}")
            return 0
        for family, version in committed():
            name = f"{family}/{version}"
            database = ["-db", os.environ["GOVULNDB"]] if os.environ.get("GOVULNDB") else []
            done = run(
                [f"{folder}/govulncheck", *database, *tags(family, version), "-C", str(TOOLCHAIN / name), "tool"],
                env={"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
            )
            if done.returncode == _FOUND:
                worst = 1
                print(f"govulncheck: {name}\n{done.stdout}")
            elif done.returncode != 0:
                print(f"govulncheck: {name} was not asked: {last_line(done.stderr)}")
            else:
                print(f"govulncheck: {name}: nothing that its programs call is known to be bad")
    return worst


def ask_go() -> int:
    """Check that the programs do not link the packages that acceptances rely on."""
    _bad, accepted = parse_table((REQUIREMENTS / "known-bad.toml").read_text(encoding="utf-8"))
    places = sorted({place for row in accepted if row.not_linked for place in row.where})
    worst = 0
    for place in places:
        done = run(
            ["go", "list", "-mod=readonly", "-deps", *tags(*place.split("/")), "tool"],
            env={"CGO_ENABLED": "0", "GOOS": "linux"},
            cwd=TOOLCHAIN / place,
        )
        if done.returncode != 0:
            print(f"go list: {place} was not asked: {last_line(done.stderr)}")
            continue
        linked = set(done.stdout.split())
        wrong = [
            (row.id, package) for row in accepted if place in row.where for package in linked & set(row.not_linked)
        ]
        for id, package in wrong:
            print(f"go list: {place} links {package}, without which {id} is accepted")
        worst = max(worst, len(wrong))
        if not wrong:
            print(f"go list: {place}: {len(linked)} packages, none of those without which a bad pin is accepted")
    return worst


def run(argv: list[str], *, env: dict[str, str] | None = None, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(argv, 127, "", f"{argv[0]} is not on this machine")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"no end after {_SECONDS} seconds")


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it gave no reason"])[-1].strip()


if __name__ == "__main__":
    if sys.argv[1:] == ["pins"]:
        sys.exit(check_pins())
    if sys.argv[1:]:
        sys.exit(__doc__)
    sys.exit(1 if check_pins() + ask_go() + ask_pip_audit() + ask_govulncheck() else 0)
