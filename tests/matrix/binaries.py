# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the kube-proxy of each minor version from its Go module, as the role kubernetes_binaries does, but without a committed pin:
Go compares each module with its checksum database. Nothing that is shipped uses these programs.

    python -m tests.matrix.binaries 1.29.15
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES, VERSION
from scripts.toolchain import ROOT, parse_go_line, parse_staging

# The newest patch of each minor version that the module proxy had, but those that the role pins.
VERSIONS = (
    "1.29.15",
    "1.30.14",
    "1.31.11",
    "1.32.13",
    "1.33.13",
    "1.34.4",
    "1.35.8",
    "1.36.4",
    "1.37.1",
)
_KUBERNETES = FAMILIES["kubernetes"]
_PLACE = ROOT / ".build" / "matrix"


def kube_proxy(version: str) -> Path:
    """The program, which is built where it is missing: a few minutes."""
    if not VERSION.fullmatch(version):
        raise SystemExit(f"version {version} is not of the form 1.37.1")
    folder = _PLACE / version
    program = folder / "kube-proxy"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        upstream = json.loads(_go(folder, "mod", "download", "-json", f"{_KUBERNETES.module}@v{version}"))["GoMod"]
        (folder / "go.mod").write_text(_module(version, Path(upstream).read_text(encoding="utf-8")), encoding="utf-8")
        package = _KUBERNETES.component("kube-proxy").package
        stamps = " ".join(["-s -w", *_KUBERNETES.stamp_flags(version)])
        _go(folder, "build", "-mod=mod", "-trimpath", "-ldflags", stamps, "-o", str(program), package)
    return program


def _module(version: str, upstream: str) -> str:
    pinned = "v0." + version.split(".", 1)[1]
    staging = "".join(f"\t{name} => {name} {pinned}\n" for name in parse_staging(upstream, prefix=_KUBERNETES.staging))
    return (
        f"module ballast.example/kube-proxy\n\ngo {parse_go_line(upstream)}\n\n"
        f"require {_KUBERNETES.module} v{version}\n\nreplace (\n{staging})\n"
    )


def _go(folder: Path, *arguments: str) -> str:
    settings = {"GOWORK": "off", "CGO_ENABLED": "0", "GOOS": "linux"}
    done = subprocess.run(
        ["go", *arguments], cwd=folder, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"go {' '.join(arguments)}: exit status {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    for chosen in sys.argv[1:] or VERSIONS:
        print(kube_proxy(chosen))
