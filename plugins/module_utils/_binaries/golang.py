# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The go command: finds it and its version, and builds a binary from a pinned module."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .._core.engine.plan import Value
from .._core.host.host import Host
from .._core.text.errors import BallastError, CommandFailed
from .._core.text.json_text import parse_json
from .families import Component, Family
from .messages import MESSAGES

# The operator decides where modules come from and where Go keeps them. This module decides the content of a binary, so GOFLAGS,
# GOEXPERIMENT, GOAMD64 and the like are not passed on.
_PASSED = (
    "GOCACHE", "GOENV", "GOINSECURE", "GOMAXPROCS", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPATH", "GOPRIVATE", "GOPROXY",
    "GOSUMDB", "GOTMPDIR", "GOTOOLCHAIN", "HOME", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
_SET = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOOS": "linux", "GOWORK": "off"}
# Compiler and linker run briefly, so they collect garbage only when memory becomes scarce. This saves a tenth of the work of building
# a small binary (measured) and does not change the binary.
_COMPILE_WITH = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}

_BUILD_SECONDS = 3600  # the largest binary takes 6 minutes on two cores with nothing cached
_LIST_SECONDS = 1800  # fetches some hundred megabytes on the first run


@dataclass(frozen=True)
class Toolchain:
    version: str  # "go1.26.8"
    platform: str  # "linux/amd64"
    caches: tuple[str, ...]  # the directories that a build fills


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a go command gets from our environment; its caches need HOME."""
    passed = {name: environ[name] for name in _PASSED if name in environ}
    return {"HOME": os.path.expanduser("~"), **passed, **_SET, **_COMPILE_WITH}


def find(host: Host, *, go: str, search: str) -> str:
    """The path of the go command; "" when there is none. `search` is a PATH; that of sudo often lacks the directory of Go's installer."""
    if os.path.isabs(go):
        return go if host.stat(go) else ""
    for directory in [*search.split(":"), "/usr/local/go/bin", "/usr/lib/go/bin"]:
        path = os.path.join(directory, go or "go")
        if os.path.isabs(path) and host.stat(path):
            return path
    return ""


def describe(host: Host, go: str, *, folder: str, environment: Mapping[str, str]) -> Toolchain:
    """Runs in the module's folder, where GOTOOLCHAIN=auto may choose a newer version than the installed one."""
    names = ["GOVERSION", "GOOS", "GOARCH", "GOCACHE", "GOMODCACHE"]
    settings = parse_json(host.run([go, "env", "-json", *names], timeout=600, env=environment, cwd=folder).stdout)
    return Toolchain(
        version=str(settings["GOVERSION"]),
        platform=f"{settings['GOOS']}/{settings['GOARCH']}",
        caches=(str(settings["GOCACHE"]), str(settings["GOMODCACHE"])),
    )


def least_version(module: str) -> str:
    """The version in the go line of a go.mod, such as "1.26.8"; "1.0" without one."""
    match = re.search(r"^go (\S+)$", module, re.MULTILINE)
    return match[1] if match else "1.0"


def numbers(version: str) -> tuple[int, ...]:
    """go1.26.8, 1.26 or go1.27rc1 as comparable numbers; a missing patch number is 0, a release candidate counts as its release."""
    match = re.match(r"(?:go)?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else (0, 0, 0)


def architecture() -> str:
    """This machine's architecture, as Go and upstream's releases name it."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def flags(family: Family, version: str) -> list[Value]:
    """Flags for stripped binaries without paths and times: equal inputs give equal files."""
    tags = [f"-tags={family.tags_of(version)}"] if family.tags else []
    linker = " ".join(["-s", "-w", *family.stamp_flags(version)])
    return ["-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=-dwarf=false", *tags, f"-ldflags={linker}"]


def source_digest(host: Host, folder: str) -> str:
    """The SHA-256 over the names and contents of a command's compiled files, without tests and documentation."""
    digest = hashlib.sha256()
    for name in sorted(host.listdir(folder)):
        if name == "go.mod" or (name.endswith(".go") and not name.endswith("_test.go")):
            data = host.read(os.path.join(folder, name)) or b""
            digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def fetch(
    host: Host, go: str, *, folder: str, component: Component, version: str, environment: Mapping[str, str]
) -> None:
    """Fetch the modules that a binary needs, verified by go.sum. A separate step, so that each failure has its own remedy."""
    name, tests = component.name, ["-test"] if component.test else []
    argv = [go, "list", "-deps", *tests, "-mod=readonly", "-f", "{{.ImportPath}}", component.package]
    try:
        host.run(argv, timeout=_LIST_SECONDS, env=environment, cwd=folder)
    except CommandFailed as error:
        raise _failure(error, "binaries-modules", name=name, version=version) from error


def build(
    host: Host,
    go: str,
    *,
    folder: str,
    family: Family,
    version: str,
    name: str,
    to: str,
    environment: Mapping[str, str],
) -> None:
    """Build one binary into the file `to`."""
    component = family.component(name)
    command = ["test", "-c", "-vet=off"] if component.test else ["build"]
    argv = [go, *command, *(str(flag) for flag in flags(family, version)), "-o", to, component.package]
    try:
        host.run(argv, timeout=_BUILD_SECONDS, env=environment, cwd=folder)
    except CommandFailed as error:
        raise _failure(error, "binaries-build", name=name, version=version) from error


def _failure(error: CommandFailed, id: str, **fields: str) -> BallastError:
    if "no space left on device" in error.output:
        id = "binaries-build-disk-full"
    elif "signal: killed" in error.output:
        id = "binaries-build-killed"
    return MESSAGES.error(id, found=error.found, **fields)
