"""The source of hyper-mini: formatted, nothing for go vet, and its own Go tests pass, with the default version of Kubernetes.

The flags are those of the real build, so that the tests are compiled from what the cache of Go holds already.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries import golang
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost

FAMILY = FAMILIES["hyper-mini"]
FOLDER = Path(__file__).resolve().parents[2] / "roles/kubernetes_binaries/files/toolchain/hyper-mini"


@pytest.fixture(scope="module")
def go() -> str:
    found = golang.find(LocalHost(), go="", search=os.environ.get("PATH", ""))
    assert found, "there is no go command"
    return found


def test_the_source_is_formatted(go):
    root = subprocess.run([go, "env", "GOROOT"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    done = subprocess.run(
        [f"{root}/bin/gofmt", "-l", "."], check=True, cwd=FOLDER / "command", stdout=subprocess.PIPE, text=True
    )
    assert done.stdout == ""


def run(go, *words):
    return subprocess.run(
        [go, *words],
        check=False,
        cwd=FOLDER / FAMILY.default_version,
        env={**os.environ, **golang.environment(os.environ)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_its_own_tests_pass(go):
    done = run(go, "test", *flags(), "-vet=off", "-count=1", "-timeout=5m", FAMILY.command)
    assert done.returncode == 0, done.stdout[-4000:]


def test_vet_finds_nothing(go, tmp_path):
    done = vetted(go, tmp_path, FOLDER / "command")
    assert done.returncode == 0, done.stdout[-4000:]


def test_vet_would_find_something(go, tmp_path):
    shutil.copytree(FOLDER / "command", tmp_path / "command")
    wrong = 'package main\n\nimport "fmt"\n\nfunc wrong() string { return fmt.Sprintf("%d", "text") }\n'
    (tmp_path / "command/wrong.go").write_text(wrong)
    done = vetted(go, tmp_path, tmp_path / "command")
    assert done.returncode != 0
    assert "wrong.go:5" in done.stdout


def flags():
    return [str(flag) for flag in golang.flags(FAMILY, FAMILY.default_version)]


def vetted(go, place, source):
    """What vet says of the command's own files (without its tests), given what the build left of all that they import.

    `go vet` goes through those two thousand packages too, which takes minutes where nothing is cached, to learn which of their functions
    print. The file's form is the protocol between go and vet (golang.org/x/tools/go/analysis/unitchecker).
    """
    listed = run(go, "list", *flags(), "-deps", "-export", "-json=ImportPath,Export,GoFiles,Standard", FAMILY.command)
    assert listed.returncode == 0, listed.stdout[-4000:]
    packages = [json.loads(text) for text in re.split(r"(?m)^(?=\{)", listed.stdout) if text]
    own = packages[-1]
    added = {path.name for path in source.glob("*.go")} - {path.name for path in (FOLDER / "command").glob("*.go")}
    names = {package["ImportPath"] for package in packages}
    config = {
        "ID": own["ImportPath"],
        "Compiler": "gc",
        "Dir": str(source),
        "ImportPath": own["ImportPath"],
        "GoFiles": [str(source / name) for name in sorted({*own["GoFiles"], *added})],
        "ImportMap": {name: name for name in names},
        "PackageFile": {package["ImportPath"]: package.get("Export", "") for package in packages},
        "Standard": {package["ImportPath"]: True for package in packages if package.get("Standard")},
        "VetxOutput": str(place / "vet.out"),
    }
    (place / "vet.cfg").write_text(json.dumps(config))
    return run(go, "tool", "vet", str(place / "vet.cfg"))
