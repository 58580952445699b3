"""A machine with a Go command and pinned modules, both in memory, and requests for it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._binaries.engine import ENGINE, BinariesEngine
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES, FAMILIES
from ansible_collections.ballast.kube.plugins.module_utils._binaries.request import BinariesRequest
from ansible_collections.ballast.kube.plugins.module_utils._binaries.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan, Step
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed, Host
from tests.unit.fakes import Call, FakeHost

CACHE = "/var/cache/ballast/binaries"
TOOLCHAIN = "/role/files/toolchain"
GO = "/usr/local/go/bin/go"
ENVIRON = {"HOME": "/root", "PATH": "/usr/bin:/bin", "GOFLAGS": "-race", "GOPROXY": "https://modules.example"}

# Families without API servers, so that nothing has to run before they are done.
SMALL = [{"name": "etcd"}, {"name": "cni"}]


def request(**changes: Any) -> dict[str, Any]:
    """The parameters as the module gets them: every option, with its default."""
    found = {name: option.get("default") for name, option in MAKE.items()}
    return {**found, "toolchain_dir": TOOLCHAIN, **changes}


class Go:
    """The go command: writes programs that say a version. `broken` makes builds fail with that output."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.version = "go1.26.8"
        self.broken = ""
        self.unreachable = ""
        self.says = "{shown}"  # what a program answers when asked for its version
        self.built: list[str] = []
        self.environment: Mapping[str, str] = {}

    def __call__(self, call: Call) -> Completed:
        self.environment = call.env
        verb = call.argv[1]
        assert call.cwd is not None
        assert call.cwd.startswith(TOOLCHAIN)
        if verb == "env":
            told = {"GOVERSION": self.version, "GOOS": "linux", "GOARCH": "amd64"}
            return Completed(
                call.argv, 0, json.dumps({**told, "GOCACHE": "/root/cache", "GOMODCACHE": "/root/mod"}), ""
            )
        fault = self.unreachable if verb == "list" else self.broken
        if fault:
            return Completed(call.argv, 1, "", fault)
        if verb in ("build", "test"):
            to = call.argv[call.argv.index("-o") + 1]
            family, version = FAMILIES[call.cwd.split("/")[-2]], call.cwd.split("/")[-1]
            text = self.says.format(shown=family.shows.format(version=version))
            self.host.given(to, f"{os.path.basename(to)} {text}\n", mode=0o755)
            self.built.append(os.path.basename(to))
        return Completed(call.argv, 0, "", "")


def machine() -> tuple[FakeHost, Go]:
    host = FakeHost()
    go = Go(host)
    host.given(GO, mode=0o755)
    # Only a build leaves something; `env` and `list` read.
    host.on(GO, answer=go, reads=lambda argv: argv[1] not in ("build", "test"))
    for family in FAMILIES.values():
        for version in sorted(
            {family.version_with(kubernetes) for kubernetes in ("1.35.8", "1.36.4", DEFAULT_KUBERNETES)}
        ):
            folder = f"{TOOLCHAIN}/{family.name}/{version}"
            host.given(f"{folder}/go.mod", f"module {family.name}\n\ngo 1.26.0\n")
            host.given(f"{folder}/go.sum", f"{family.name} {version}\n")
        if family.command:
            host.given(f"{TOOLCHAIN}/{family.name}/command/main.go", "package main\n")
        for component in family.components:
            host.on(f"{CACHE}/work/{component.name}", answer=lambda call: host.text(call.argv[0]), reads=True)
    return host, go


def desired(host: Host, params: Optional[Mapping[str, Any]] = None) -> BinariesRequest:
    return BinariesRequest.from_params(params or request(families=SMALL), host, ENVIRON)


def planned(host: Host, wanted: BinariesRequest, *, engine: BinariesEngine = ENGINE) -> Plan:
    return engine.plan(wanted, engine.observe(Context(wanted, host)))


def run(host: Host, params: Optional[Mapping[str, Any]] = None) -> tuple[Step, ...]:
    """One run of the module; the steps it did. Afterwards verify finds nothing."""
    wanted = desired(host, params)
    progress = Progress(NullSink(), feature="binaries")
    done = ENGINE.apply(planned(host, wanted), Context(wanted, host, progress)).steps
    assert ENGINE.verify(Context(wanted, host, progress)) == []
    return done
