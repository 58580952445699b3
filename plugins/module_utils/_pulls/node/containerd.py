# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""containerd's limits: read from the running containerd, set in the table of its version, verified by `containerd config dump`."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional, Union

from ..._core.engine.context import Context
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.host.host import Host, ProcessId
from ..._core.host.processes import program, read_command
from ..._core.service.daemon import daemon_process, flag_value
from ..._core.text.errors import BallastError, CommandFailed, HostError, Unavailable, last_lines
from ..._core.text.toml_text import toml_string
from .containerd_files import read_files, replacing_import, source_of
from .containerd_tables import (
    CRI_IMAGES,
    CRI_V2,
    DOWNLOADS,
    OURS,
    Place,
    Version,
    check_keys,
    choose_place,
    drop_in_text,
    parse_version,
)
from .drop_in import HEADING, DropInKind, drop_in, restart_until_healthy
from .messages import MESSAGES
from .model import CONTAINERD, ImagePullsRequest
from .runtime import runtime_service
from .toml import (
    PENDING,
    Scalar,
    Tables,
    head_imports,
    head_strings,
    head_version,
    parse_tables,
    read_number,
    set_number,
)

CONFIG_PATH = "/etc/containerd/config.toml"
FILE_NAME = "90-ballast-image-pulls.toml"
_PROPOSED = "/etc/containerd/conf.d/*.toml"
_PROGRAM = "containerd"
_TIMEOUT = 30
_PLUGINS = (("io.containerd.grpc.v1", "cri"), ("io.containerd.cri.v1", "images"), ("io.containerd.cri.v1", "runtime"))
_CRI_NAMES = {"cri", *(f"{kind}.{name}" for kind, name in _PLUGINS)}
_GRPC = ("plugins.io.containerd.server.v1.grpc", "grpc")  # since config version 4, and before


@dataclass(frozen=True)
class Containerd:
    """A running containerd."""

    process: ProcessId
    directory: str  # directory of its program
    config_path: str
    version: Version
    address: str = ""  # as its command line has it, which overrides that of its file


def find_containerd(host: Host, service: str, config_path: str) -> Containerd:
    """The running containerd. If `config_path` is "", that of its command line is used. HostError if it does not run."""
    running = daemon_process(host, service)
    if running is None or program(running) != _PROGRAM:  # or the process is still the script that starts it
        raise MESSAGES.error("pulls-node-service", option="runtime_service", service=service, what=_PROGRAM)
    argv = read_command(host, running.id)
    config_flag = flag_value(argv, "--config") or flag_value(argv, "-c") or ""
    # Run the executable of the running process: after a package update, the file on disk differs from it until a restart.
    printed = host.run_program(running.id, ["--version"], timeout=_TIMEOUT).stdout
    version = parse_version(printed)
    if version is None:
        raise MESSAGES.error("pulls-node-runtime-version", found=printed.strip(), version="of unknown version")
    address = flag_value(argv, "--address") or flag_value(argv, "-a") or ""
    path = config_path or config_flag or CONFIG_PATH
    return Containerd(running.id, os.path.dirname(running.exe), path, version, address)


def dump(host: Host, containerd: Containerd) -> Tables:
    """All its files merged, as containerd itself merges them."""
    return parse_tables(_dump_text(host, containerd))


def dump_with_cri(host: Host, containerd: Containerd) -> Tables:
    """`dump`; HostError if the CRI plugin is disabled, as in the containerd that Docker's packages install."""
    text = _dump_text(host, containerd)
    if set(head_strings(text, "disabled_plugins") or []) & _CRI_NAMES:
        raise MESSAGES.error("pulls-node-cri-disabled", path=containerd.config_path)
    return parse_tables(text)


def _dump_text(host: Host, containerd: Containerd) -> str:
    arguments = ["--config", containerd.config_path, "config", "dump"]
    return host.run_program(containerd.process, arguments, timeout=_TIMEOUT).stdout


def read_main_file(host: Host, containerd: Containerd) -> str:
    """The text of containerd's own configuration file. BallastError when there is none: nothing would import a drop-in."""
    data = host.read(containerd.config_path)
    if data is None:
        hint = f"create it: containerd config default > {containerd.config_path}"
        raise _config_error(containerd.config_path, "it does not exist, so containerd imports nothing", hint)
    return data.decode(errors="surrogateescape")


def find_place(host: Host, containerd: Containerd, config: Tables, recorded: Optional[str]) -> Place:
    """The table and file in which the limit is set. `config` is containerd's dump, `recorded` the path of an earlier run's drop-in."""
    text = read_main_file(host, containerd)
    version = head_version(text)
    if version < 2:
        raise _config_error(
            containerd.config_path, "it has version 1", "migrate it to version 2: containerd config migrate"
        )
    drop_in_tables = parse_tables((host.read(recorded) or b"").decode(errors="replace")) if recorded else {}
    ours: Mapping[str, Scalar] = {**drop_in_tables.get(CRI_IMAGES, {}), **drop_in_tables.get(CRI_V2, {})}
    return choose_place(containerd.version, version, config, ours=ours)


def containerd_resource(
    host: Host, containerd: Containerd, settings: Mapping[str, int], recorded: Optional[str]
) -> Resource:
    """The resource for these limits. UserError or HostError if they cannot be set here."""
    require_ctr(host, containerd)
    place = find_place(host, containerd, dump_with_cri(host, containerd), recorded)
    check_keys(settings, containerd.version, place)
    if place.in_main_file:
        replacing = replacing_import(read_files(host, containerd.config_path, containerd.version))
        if replacing:
            raise MESSAGES.error("pulls-node-import", path=replacing, main=containerd.config_path)
        _number(containerd.config_path, read_main_file(host, containerd))
        return Resource(
            kind="containerd-number",
            target=containerd.config_path,
            value={"number": settings[DOWNLOADS]},
            title=f"{DOWNLOADS} of {containerd.config_path}",
            group="image pulls",
        )
    path = drop_in_path(read_main_file(host, containerd), containerd.config_path)
    return drop_in("containerd-drop-in", path, drop_in_text(place, settings), title=f"containerd's drop-in {path}")


def drop_in_path(main: str, config_path: str) -> str:
    """The path of our drop-in in a directory that containerd imports. HostError, which names the line to add, if there is none."""
    imports = head_imports(main)
    if imports is None:
        raise _config_error(
            config_path, "its imports cannot be read", "write them as a list of strings, above the first table"
        )
    for pattern in imports:
        directory, name = os.path.split(os.path.normpath(os.path.join(os.path.dirname(config_path), pattern)))
        if fnmatch.fnmatchcase(FILE_NAME, name) and name != FILE_NAME and not set("*?[") & set(directory):
            return os.path.join(directory, FILE_NAME)
    line = f"imports = [{', '.join(toml_string(pattern) for pattern in [*imports, _PROPOSED])}]"
    raise _config_error(config_path, "it imports no drop-in directory", f"add this line above its first table: {line}")


def require_ctr(host: Host, containerd: Containerd) -> str:
    """The path of ctr, preferably the one in containerd's directory."""
    beside = os.path.join(containerd.directory, "ctr")
    path = beside if host.stat(beside) is not None else host.which("ctr")
    if path is None:
        raise Unavailable("ctr")
    return path


def _find(ctx: Context[ImagePullsRequest], service: str = "") -> Containerd:
    layout = ctx.desired.layout
    service = service or runtime_service(ctx.host, layout, CONTAINERD)
    return find_containerd(ctx.host, service, layout.runtime_config)


def _dump_before(ctx: Context[ImagePullsRequest]) -> Optional[Tables]:
    """The present settings, most of which must not change; None if containerd cannot read its files, as in an undo."""
    try:
        return dump(ctx.host, _find(ctx))
    except BallastError:
        return None


def _take_effect(
    ctx: Context[ImagePullsRequest],
    target: str,
    expected: Mapping[str, Mapping[str, Scalar]],
    before: Optional[Tables],
    *,
    rolls_back: bool,
) -> None:
    """Restart containerd; `expected` has the settings by table, named as in a dump. `rolls_back` as in DropInKind."""
    if not rolls_back:
        _require_read(ctx, target, expected, before)
    service = runtime_service(ctx.host, ctx.desired.layout, CONTAINERD)
    restart_until_healthy(
        ctx, _PROGRAM, service, lambda: _check_running(ctx, service), failure="pulls-node-runtime-failed"
    )
    ctx.progress.done(_PROGRAM, "healthy")


def _require_read(
    ctx: Context[ImagePullsRequest], target: str, expected: Mapping[str, Mapping[str, Scalar]], before: Optional[Tables]
) -> None:
    """Called before the restart. Error unless the dump has the expected settings, and nothing else has changed."""
    containerd = _find(ctx)
    try:
        after = dump(ctx.host, containerd)
    except CommandFailed as error:
        raise _config_error(target, error.found, "correct the rest of that file") from error
    for table, settings in expected.items():
        for key, value in settings.items():
            there = after.get(table, {}).get(key)
            if there != value:
                shown = {"what": "containerd", "key": key, "wanted": value, "path": target}
                text = f"{key} = {there} of [{table}] in `containerd config dump`"
                files = read_files(ctx.host, containerd.config_path, containerd.version)
                where = source_of(files, table, key, containerd.version) or containerd.config_path
                raise MESSAGES.error("pulls-node-not-in-effect", found=text, where=where, **shown)
    changed = set() if before is None else changed_keys(before, after) - OURS
    if changed:
        why = f"with {target}, containerd would change {', '.join(sorted(changed)[:5])}"
        raise _config_error(containerd.config_path, why, "check its imports and their order")


def _check_running(ctx: Context[ImagePullsRequest], service: str) -> str:
    """Why containerd is not healthy. `service` is the one found before the restart, as nothing listens on its socket meanwhile."""
    try:
        containerd = _find(ctx, service)
        return check_health(ctx.host, containerd, dump(ctx.host, containerd))
    except HostError as error:  # it does not run, or ended between two commands
        return error.in_one_line


class ContainerdDropInKind(DropInKind):
    """containerd's drop-in; see DropInKind."""

    def empty_text(self, text: str) -> str:
        return f"{HEADING}version = {head_version(text)}\n"

    def prepare(self, ctx: Context[ImagePullsRequest], target: str, text: str, *, rolls_back: bool) -> Optional[Tables]:
        return _dump_before(ctx)

    def take_effect(
        self, ctx: Context[ImagePullsRequest], target: str, text: str, seen: Optional[Tables], *, rolls_back: bool
    ) -> None:
        expected = {CRI_IMAGES if name == CRI_V2 else name: keys for name, keys in parse_tables(text).items() if name}
        _take_effect(ctx, target, expected, seen, rolls_back=rolls_back)


class ContainerdNumberKind:
    """`{number}`: the value of max_concurrent_downloads in the CRI plugin's table of containerd's main file, before 2.0;
    PENDING until the restart. The rest of the file is not ours, and stays byte for byte."""

    def read(self, ctx: Context[ImagePullsRequest], target: str) -> Value:
        data = ctx.host.read(target)
        value = None if data is None else _number(target, data.decode(errors="surrogateescape"))
        return ABSENT if value is None else {"number": value}

    def write(self, ctx: Context[ImagePullsRequest], target: str, after: Value, before: Value) -> None:
        value = fields(after)["number"]
        self._change(ctx, target, int(value) if isinstance(value, int) else None, before)

    def remove(self, ctx: Context[ImagePullsRequest], target: str, before: Value) -> None:
        self._change(ctx, target, None, before)

    def _change(self, ctx: Context[ImagePullsRequest], target: str, value: Optional[int], before: Value) -> None:
        seen = _dump_before(ctx)
        self._write(ctx.host, target, value, pending=True)
        rolls_back = before != ABSENT and fields(before)["number"] == PENDING
        expected = {} if value is None else {CRI_V2: {DOWNLOADS: value}}
        _take_effect(ctx, target, expected, seen, rolls_back=rolls_back)
        self._write(ctx.host, target, value, pending=False)

    def _write(self, host: Host, target: str, value: Optional[int], *, pending: bool) -> None:
        data = host.read(target)
        if data is None:
            raise _config_error(target, "it is not there", "put it back")
        text = data.decode(errors="surrogateescape")
        changed = set_number(text, CRI_V2, DOWNLOADS, value, pending=pending)
        host.replace(target, changed.encode(errors="surrogateescape"))


def changed_keys(before: Tables, after: Tables) -> set[str]:
    """TABLE.KEY of each setting that differs."""
    names = {(table, key) for config in (before, after) for table in config for key in config[table]}
    return {f"{table}.{key}" for table, key in names if before.get(table, {}).get(key) != after.get(table, {}).get(key)}


def check_health(host: Host, containerd: Containerd, config: Tables) -> str:
    """Why the running containerd is not healthy, "" if it is. `config` is its dump."""
    in_file = next((str(config[name]["address"]) for name in _GRPC if config.get(name, {}).get("address")), "")
    address = containerd.address or in_file
    argv = [require_ctr(host, containerd), "--address", address, "plugins", "ls"]
    done = host.run(argv, timeout=_TIMEOUT, check=False)
    return (
        plugin_problem(done.stdout) if done.status == 0 else f"it does not respond:  {last_lines(done.stderr, limit=2)}"
    )


def plugin_problem(text: str) -> str:
    """Which part of the CRI plugin failed, from the output of `ctr plugins ls`; "" if none did. containerd keeps running without the
    plugin if it cannot read the plugin's table."""
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
        return read_number(text, CRI_V2, DOWNLOADS)
    except ValueError as error:
        hint = 'have one line [plugins."io.containerd.grpc.v1.cri"] in it, and each of its keys on its own line'
        raise _config_error(path, str(error), hint) from error


def _config_error(path: str, why: str, hint: str) -> BallastError:
    return MESSAGES.error("pulls-node-runtime-config", path=path, why=why, hint=hint)
