# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adds --config-dir to a kubelet that kubeadm's unit starts without it.

The unit reads KUBELET_EXTRA_ARGS from /etc/default/kubelet (deb packages) or /etc/sysconfig/kubelet (rpm packages), which belong
to the administrator. kubeadm itself only writes kubeadm-flags.env, and reads neither. Source: k8s.io/kubernetes/cmd/kubeadm, and
10-kubeadm.conf of the packages.

    directory -> drop-in written -> flag written -> kubelet restarted once, and verified with both
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ..._core.engine.context import Context
from ..._core.engine.kinds import fields
from ..._core.engine.ownership import make_marked_directory, release
from ..._core.engine.plan import ABSENT, Recorded, Resource, Value
from ..._core.host.host import Host
from ..._core.service.daemon import daemon_files
from ..._core.text.errors import BallastError
from ..._kubelet.config import find_config_dir
from ..._kubelet.extra_args import VARIABLE, add_flag, find_flag_value, remove_flag
from ..._kubelet.find import Kubelet
from .containerd_tables import parse_version
from .kubelet import FILE_NAME, check_health, drop_in_settings, find_kubelet, require_in_effect, restart_kubelet
from .messages import MESSAGES
from .model import ImagePullsRequest
from .toml import PENDING

KIND, DIRECTORY_KIND = "kubelet-config-dir", "kubelet-drop-ins"
DIRECTORY = "/etc/kubernetes/kubelet.conf.d"  # kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file
_FILES = ("/etc/default/kubelet", "/etc/sysconfig/kubelet")
_NAME = "config-dir"
_OLDEST = (1, 30)  # beta and on by default; 1.28 and 1.29 require KUBELET_CONFIG_DROPIN_DIR_ALPHA in the environment
_SECONDS = 30
_MODE = 0o644


def config_dir_resource(
    host: Host, running: Kubelet, service: str, recorded: Mapping[str, Recorded]
) -> Optional[Resource]:
    """The flag, if this node needs it or has it from us; None if the kubelet has one that is not ours. HostError when there is no
    file to put it in."""
    there = recorded.get(KIND)
    if there is None and find_config_dir(host, running):
        return None
    path = _environment_file(host, service)
    _require_new_enough(host, running)
    if there is None and find_flag_value(_text(host, path) or "", _NAME):
        raise MESSAGES.error("pulls-node-config-dir-later", path=path)
    value: Value = {"text": f"--{_NAME}={DIRECTORY}\n"}
    return Resource(
        kind=KIND, target=path, value=value, title=f"--{_NAME} in {VARIABLE} of {path}", group="image pulls"
    )


def directory_resource(host: Host, directory: str, recorded: Mapping[str, Recorded]) -> list[Resource]:
    """The directory, if it is absent or we made it; empty if an administrator made it."""
    there = recorded.get(DIRECTORY_KIND)
    if host.stat(directory) is not None and (there is None or there.target != directory):
        return []
    value: Value = {"there": True}
    return [Resource(DIRECTORY_KIND, directory, value, title=f"directory {directory}", group="image pulls")]


class DropInDirectoryKind:
    """`{there}`: made with our mark. It is only removed when empty, so files of others stay."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return ABSENT if ctx.host.stat(target) is None else {"there": True}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        make_marked_directory(ctx.host, target, mode=0o755)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        release(ctx.host, target)


class ConfigDirKind:
    """`{text}`: the flag with its value, and a comment if the running kubelet was started differently, as when a run was killed before
    the restart. The rest of the file is not changed."""

    def read(self, ctx: Context[ImagePullsRequest], target: str) -> Value:
        value, running = find_flag_value(_text(ctx.host, target) or "", _NAME), _running_value(ctx)
        if value and running in (value, None):
            return {"text": f"--{_NAME}={value}\n"}
        if value or running == DIRECTORY:
            return {"text": f"--{_NAME}={value or DIRECTORY}\n# {PENDING}\n"}
        return ABSENT

    def write(self, ctx: Context[ImagePullsRequest], target: str, after: Value, before: Value) -> None:
        text = _text(ctx.host, target)
        if text is not None and before != ABSENT:
            text = remove_flag(text, _flag(before))
        self._put(ctx.host, target, add_flag(text, _flag(after)))
        restart_kubelet(ctx, config_dir=_flag(after).partition("=")[2])
        drop_in = f"{DIRECTORY}/{FILE_NAME}"
        expected = drop_in_settings((ctx.host.read(drop_in) or b"").decode())
        require_in_effect(ctx, drop_in, expected)

    def remove(self, ctx: Context[ImagePullsRequest], target: str, before: Value) -> None:
        if _is_read_for_others(ctx, _flag(before)):
            return  # without the flag, the kubelet would drop their settings too
        text = _text(ctx.host, target)
        if text is not None:
            self._put(ctx.host, target, remove_flag(text, _flag(before)))
        if _running_value(ctx) == _flag(before).partition("=")[2]:
            restart_kubelet(ctx, config_dir="")

    def _put(self, host: Host, path: str, text: Optional[str]) -> None:
        if text == _text(host, path):
            return
        if text is None:
            host.remove(path)
        elif host.stat(path) is None:
            host.write(path, text.encode(errors="surrogateescape"), mode=_MODE)
        else:
            host.replace(path, text.encode(errors="surrogateescape"))


def _flag(value: Value) -> str:
    return str(fields(value)["text"]).partition("\n")[0]


def _is_read_for_others(ctx: Context[ImagePullsRequest], flag: str) -> bool:
    """Whether a healthy kubelet reads drop-ins of others in that directory, such as those of balloons."""
    others = [name for name in ctx.host.listdir(DIRECTORY) if name.endswith(".conf") and name != FILE_NAME]
    if not others or _running_value(ctx) != flag.partition("=")[2]:
        return False
    return check_health(ctx.host, find_kubelet(ctx.host, ctx.desired.layout)) == ""


def _running_value(ctx: Context[ImagePullsRequest]) -> Optional[str]:
    """The directory with which the kubelet was started; None when none runs."""
    try:
        kubelet = find_kubelet(ctx.host, ctx.desired.layout)
    except BallastError:
        return None
    return None if kubelet.pid is None else find_config_dir(ctx.host, kubelet)


def _text(host: Host, path: str) -> Optional[str]:
    data = host.read(path)
    return None if data is None else data.decode(errors="surrogateescape")


def _environment_file(host: Host, service: str) -> str:
    """The administrator's file that the unit reads, for the variable that its command uses."""
    files = daemon_files(host, service)
    path = next((path for path in files if path in _FILES), "")
    command = b"\n".join(host.read(each) or b"" for each in files if each not in _FILES)
    if not path or VARIABLE.encode() not in command:
        raise MESSAGES.error("pulls-node-config-dir")
    return path


def _require_new_enough(host: Host, running: Kubelet) -> None:
    """HostError for a kubelet that does not support drop-ins."""
    process = host.process(running.pid) if running.pid is not None else None
    if process is None:
        return
    printed = host.run_program(process.id, ["--version"], timeout=_SECONDS).stdout
    version = parse_version(printed)
    if version is not None and version < _OLDEST:
        raise MESSAGES.error("pulls-node-kubelet-version", version=printed.strip())
