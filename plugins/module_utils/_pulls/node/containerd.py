# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""containerd's limits: found as it runs, set where its version has them, proven by its own reading of its files."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional, Union

from ..._core.daemon import command_line, daemon_pid, flag_value, restart_daemon
from ..._core.errors import BallastError, CommandFailed, HostError, PeerError, Unavailable, last_lines
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kinds import fields
from ..._core.plan import ABSENT, Resource, Value
from ..._core.wait import Pending, Ready, wait
from .containerd_tables import (
    CRI_IMAGES,
    CRI_V2,
    DOWNLOADS,
    OURS,
    Place,
    Version,
    check_keys,
    drop_in_text,
    parse_version,
    place,
)
from .drop_in import HEADING, DropInKind, drop_in
from .messages import MESSAGES
from .toml import PENDING, Scalar, Tables, head_imports, head_version, number, quoted, tables, with_number

CONFIG_PATH = "/etc/containerd/config.toml"
FILE_NAME = "90-ballast-image-pulls.toml"
_PROPOSED = "/etc/containerd/conf.d/*.toml"
_PROGRAM = "containerd"
_TIMEOUT = 30
_PLUGINS = (("io.containerd.grpc.v1", "cri"), ("io.containerd.cri.v1", "images"), ("io.containerd.cri.v1", "runtime"))
_GRPC = ("plugins.io.containerd.server.v1.grpc", "grpc")  # from config version 4, and before


@dataclass(frozen=True)
class Containerd:
    """As it runs."""

    pid: int
    program: str
    config_path: str
    version: Version


def find_containerd(host: Host, service: str, config_path: str) -> Containerd:
    """`config_path` "" is the one that it is started with. HostError where it does not run."""
    pid = daemon_pid(host, service)
    argv = [] if pid is None else command_line(host, pid)
    if pid is None or not argv or os.path.basename(argv[0]) != _PROGRAM:  # or still the script that starts it
        raise MESSAGES.error("pulls-node-service", option="runtime_service", service=service, what=_PROGRAM)
    program = f"/proc/{pid}/exe"  # also after an update of the package, until it is started anew
    told = flag_value(argv, "--config") or flag_value(argv, "-c") or ""
    printed = host.run([program, "--version"], timeout=_TIMEOUT).stdout
    version = parse_version(printed)
    if version is None:
        raise MESSAGES.error("pulls-node-runtime-version", found=printed.strip(), version="of unknown version")
    return Containerd(pid, program, config_path or told or CONFIG_PATH, version)


def dump(host: Host, containerd: Containerd) -> Tables:
    """What its files say together, by its own reading."""
    argv = [containerd.program, "--config", containerd.config_path, "config", "dump"]
    return tables(host.run(argv, timeout=_TIMEOUT).stdout)


def main_text(host: Host, containerd: Containerd) -> str:
    data = host.read(containerd.config_path)
    if data is None:
        hint = f"make it: containerd config default > {containerd.config_path}"
        raise _config_error(containerd.config_path, "it is not there, so containerd imports nothing", hint)
    return data.decode(errors="surrogateescape")


def containerd_place(host: Host, containerd: Containerd, config: Tables, recorded: Optional[str]) -> Place:
    """`config` is its dump, `recorded` the path of the drop-in that is there of an earlier run."""
    text = main_text(host, containerd)
    version = head_version(text)
    if version < 2:
        raise _config_error(
            containerd.config_path, "it is of version 1", "bring it to version 2: containerd config migrate"
        )
    found = tables((host.read(recorded) or b"").decode(errors="replace")) if recorded else {}
    ours: Mapping[str, Scalar] = {**found.get(CRI_IMAGES, {}), **found.get(CRI_V2, {})}
    return place(containerd.version, version, config, ours=ours)


def containerd_resource(
    host: Host, containerd: Containerd, settings: Mapping[str, int], recorded: Optional[str]
) -> Resource:
    """What should be for these limits. UserError or HostError where they cannot be set here."""
    require_ctr(host, containerd)
    where = containerd_place(host, containerd, dump(host, containerd), recorded)
    check_keys(settings, containerd.version, where)
    if where.in_main_file:
        _number(containerd.config_path, main_text(host, containerd))
        return Resource(
            kind="containerd-number",
            target=containerd.config_path,
            value={"number": settings[DOWNLOADS]},
            title=f"{DOWNLOADS} of {containerd.config_path}",
            group="image pulls",
        )
    path = drop_in_path(main_text(host, containerd), containerd.config_path)
    return drop_in("containerd-drop-in", path, drop_in_text(where, settings), title=f"containerd's drop-in {path}")


def drop_in_path(main: str, config_path: str) -> str:
    """Where a file of ours is imported. HostError where it is nowhere, which names what to add."""
    imports = head_imports(main)
    if imports is None:
        raise _config_error(
            config_path, "its imports cannot be read", "write them as a list of strings, above the first table"
        )
    for pattern in imports:
        directory, name = os.path.split(os.path.normpath(os.path.join(os.path.dirname(config_path), pattern)))
        if fnmatch.fnmatchcase(FILE_NAME, name) and name != FILE_NAME and not set("*?[") & set(directory):
            return os.path.join(directory, FILE_NAME)
    line = f"imports = [{', '.join(quoted(one) for one in [*imports, _PROPOSED])}]"
    raise _config_error(config_path, "it imports no directory of drop-ins", f"add above its first table: {line}")


def require_ctr(host: Host, containerd: Containerd) -> str:
    """The path of ctr: the one beside containerd."""
    beside = os.path.join(os.path.dirname(host.readlink(containerd.program) or "/usr/bin/containerd"), "ctr")
    found = beside if host.stat(beside) is not None else host.which("ctr")
    if found is None:
        raise Unavailable("ctr")
    return found


class _Proof:
    """What both shapes have in common."""

    def __init__(self, service: str, config_path: str, ready_seconds: float, progress: Progress) -> None:
        self._service = service
        self._config_path = config_path
        self._ready_seconds = ready_seconds
        self._progress = progress
        self._before: Optional[Tables] = None

    def look(self, host: Host) -> None:
        try:
            self._before = dump(host, self._find(host))
        except BallastError:  # an undo from a file that containerd cannot read
            self._before = None

    def take_effect(
        self, host: Host, target: str, wanted: Mapping[str, Mapping[str, Scalar]], *, goes_back: bool
    ) -> None:
        """`wanted` by the tables of a dump. `goes_back` as in DropInKind."""
        if not goes_back:
            self._require_read(host, target, wanted)
        self._progress.started(_PROGRAM, "starting it anew")
        restart_daemon(host, self._service)
        self._wait_until_healthy(host)
        self._progress.done(_PROGRAM, "healthy")

    def _require_read(self, host: Host, target: str, wanted: Mapping[str, Mapping[str, Scalar]]) -> None:
        found = self._find(host)
        try:
            after = dump(host, found)
        except CommandFailed as error:
            raise _config_error(target, error.found, "see to what stands there besides") from error
        self._require_only(after, wanted, target, found.config_path)

    def _require_only(
        self, after: Tables, wanted: Mapping[str, Mapping[str, Scalar]], target: str, config_path: str
    ) -> None:
        """Before it is started anew: what is wanted is there, and nothing else has changed."""
        for table, settings in wanted.items():
            for key, value in settings.items():
                found = after.get(table, {}).get(key)
                if found != value:
                    shown = {"what": "containerd", "key": key, "wanted": value, "path": target}
                    there = f"{key} = {found} of [{table}] in `containerd config dump`"
                    raise MESSAGES.error("pulls-node-not-in-effect", found=there, where=config_path, **shown)
        if self._before is None:
            return
        changed = changed_keys(self._before, after) - OURS
        if changed:
            why = f"with {target}, containerd would have other values of {', '.join(sorted(changed)[:5])}"
            raise _config_error(config_path, why, "see to what imports there are, and their order")

    def _wait_until_healthy(self, host: Host) -> None:
        def probe() -> Union[Ready[None], Pending]:
            try:
                found = self._find(host)
                reason = unhealthy(host, found, dump(host, found))
            except HostError as error:  # down, or ended between two questions
                reason = error.in_one_line
            return Pending(reason) if reason else Ready(None)

        try:
            wait(host, self._progress, _PROGRAM, probe, deadline_seconds=self._ready_seconds, interval=0.3)
        except PeerError as error:
            shown = {"runtime": _PROGRAM, "seconds": f"{self._ready_seconds:.0f}"}
            raise MESSAGES.error("pulls-node-runtime-failed", found=error.found or error.text, **shown) from error

    def _find(self, host: Host) -> Containerd:
        return find_containerd(host, self._service, self._config_path)


class ContainerdDropInKind(DropInKind):
    """containerd's drop-in; see DropInKind."""

    def __init__(self, service: str, config_path: str, ready_seconds: float, progress: Progress) -> None:
        self._proof = _Proof(service, config_path, ready_seconds, progress)

    def emptied(self, text: str) -> str:
        return f"{HEADING}version = {head_version(text)}\n"

    def prepare(self, host: Host, target: str) -> None:
        self._proof.look(host)

    def take_effect(self, host: Host, target: str, text: str, *, goes_back: bool) -> None:
        wanted = {CRI_IMAGES if name == CRI_V2 else name: keys for name, keys in tables(text).items() if name}
        self._proof.take_effect(host, target, wanted, goes_back=goes_back)


class ContainerdNumberKind:
    """`{number}`: of max_concurrent_downloads in the CRI plugin's table of containerd's own file, before 2.0; PENDING where
    a restart is still to come. The rest of the file is somebody else's, and stays byte for byte."""

    def __init__(self, service: str, config_path: str, ready_seconds: float, progress: Progress) -> None:
        self._proof = _Proof(service, config_path, ready_seconds, progress)

    def read(self, host: Host, target: str) -> Value:
        data = host.read(target)
        found = None if data is None else _number(target, data.decode(errors="surrogateescape"))
        return ABSENT if found is None else {"number": found}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        value = fields(after)["number"]
        self._change(host, target, int(value) if isinstance(value, int) else None, before)

    def remove(self, host: Host, target: str, before: Value) -> None:
        self._change(host, target, None, before)

    def _change(self, host: Host, target: str, value: Optional[int], before: Value) -> None:
        self._proof.look(host)
        self._write(host, target, value, pending=True)
        goes_back = before != ABSENT and fields(before)["number"] == PENDING
        wanted = {} if value is None else {CRI_V2: {DOWNLOADS: value}}
        self._proof.take_effect(host, target, wanted, goes_back=goes_back)
        self._write(host, target, value, pending=False)

    def _write(self, host: Host, target: str, value: Optional[int], *, pending: bool) -> None:
        data, stat = host.read(target), host.stat(target)
        if data is None or stat is None:
            raise _config_error(target, "it is not there", "put it back")
        text = data.decode(errors="surrogateescape")
        changed = with_number(text, CRI_V2, DOWNLOADS, value, pending=pending)
        host.write(target, changed.encode(errors="surrogateescape"), mode=stat.mode)


def changed_keys(before: Tables, after: Tables) -> set[str]:
    """TABLE.KEY of each that differs. Which files were read is no setting."""
    names = {(table, key) for one in (before, after) for table in one for key in one[table]}
    return {f"{table}.{key}" for table, key in names if before.get(table, {}).get(key) != after.get(table, {}).get(key)}


def unhealthy(host: Host, containerd: Containerd, config: Tables) -> str:
    """Why the one that runs is not in order, "" where it is. `config` is its dump."""
    address = next((str(config[name]["address"]) for name in _GRPC if config.get(name, {}).get("address")), "")
    argv = [require_ctr(host, containerd), "--address", address, "plugins", "ls"]
    done = host.run(argv, timeout=_TIMEOUT, check=False)
    return (
        plugin_problem(done.stdout) if done.status == 0 else f"it does not answer: {last_lines(done.stderr, limit=2)}"
    )


def plugin_problem(text: str) -> str:
    """Of `ctr plugins ls`: which part of the CRI plugin is not in order; "" where all are. A containerd with an unreadable
    table of it runs on without it."""
    rows = [line.split() for line in text.splitlines()]
    states = {(row[0], row[1]): row[-1] for row in rows if len(row) > 2}
    if _PLUGINS[0] not in states:
        return "it has no CRI plugin"
    failed = [
        f"plugin {kind}.{name}: {states[(kind, name)]}"
        for kind, name in _PLUGINS
        if states.get((kind, name), "ok") != "ok"
    ]
    return "; ".join(failed)


def _number(path: str, text: str) -> Union[int, str, None]:
    try:
        return number(text, CRI_V2, DOWNLOADS)
    except ValueError as error:
        hint = 'have one line [plugins."io.containerd.grpc.v1.cri"] in it, and each of its keys on a line of its own'
        raise _config_error(path, str(error), hint) from error


def _config_error(path: str, why: str, hint: str) -> BallastError:
    return MESSAGES.error("pulls-node-runtime-config", path=path, why=why, hint=hint)
