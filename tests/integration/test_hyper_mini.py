"""The source of hyper-mini: formatted, nothing for go vet, and its own Go tests pass, with the default version of Kubernetes.

The flags are those of the real build, so that the tests are compiled from what the cache of Go holds already.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries import golang
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES
from ansible_collections.ballast.kube.plugins.module_utils._core.host import LocalHost

FAMILY = FAMILIES["hyper-mini"]
FOLDER = Path(__file__).resolve().parents[2] / "roles/kubernetes_binaries/files/toolchain/hyper-mini"


@pytest.fixture(scope="module")
def go() -> str:
    found = golang.find(LocalHost(), asked="", search=os.environ.get("PATH", ""))
    assert found, "there is no go command"
    return found


def test_the_source_is_formatted(go):
    root = subprocess.run([go, "env", "GOROOT"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    done = subprocess.run(
        [f"{root}/bin/gofmt", "-l", "."], check=True, cwd=FOLDER / "command", stdout=subprocess.PIPE, text=True
    )
    assert done.stdout == ""


@pytest.mark.parametrize("words", [("test", "-vet=off", "-count=1", "-timeout=5m"), ("vet",)], ids=["test", "vet"])
def test_go_finds_nothing(go, words):
    """Vetting everything that it is made of takes a minute the first time; the cache keeps it."""
    flags = [str(flag) for flag in golang.flags(FAMILY, FAMILY.default_version)]
    done = subprocess.run(
        [go, words[0], *flags, *words[1:], FAMILY.command],
        check=False,
        cwd=FOLDER / FAMILY.default_version,
        env={**os.environ, **golang.environment(os.environ)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
