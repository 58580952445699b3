# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubelet's limits as a patch for kubeadm, which writes the kubelet's configuration file with it.

    directory -> patch written, marked -> kubeadm writes config.yaml -> kubelet restarted and verified -> mark removed

kubeadm makes that file from the ConfigMap kubelet-config, the patches in one directory, and instance-config.yaml. So it would also
remove what somebody edited by hand. A dry run shows beforehand what kubeadm would write, and a change of any key but ours is
refused. Source: k8s.io/kubernetes/cmd/kubeadm, WriteKubeletConfigFiles and getPatchSetsFromPath.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from typing import Any, Optional

from ..._core.engine.context import Context
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.host.host import Host
from ..._core.text.document import parse_document
from ..._core.text.errors import CommandFailed, Unavailable
from ..._core.text.json_text import mapping_in
from ..._kubelet.config import find_base_path
from ..._kubelet.find import Kubelet
from .drop_in import MARK, drop_in
from .kubelet import KubeletKind, differing_keys, drop_in_settings, drop_in_text, require_in_effect, restart_kubelet
from .messages import MESSAGES
from .model import ImagePullsRequest

KIND = "kubeadm-patch"
FILE_NAME = "kubeletconfiguration90-ballast-image-pulls+merge.yaml"  # TARGET SUFFIX "+" TYPE ".yaml"; kubeadm reads patches sorted by name
_KUBELET_DIR = "/var/lib/kubelet"
CONFIG = f"{_KUBELET_DIR}/config.yaml"
_INSTANCE = "instance-config.yaml"  # in _KUBELET_DIR
_PHASE = ("kubeadm", "upgrade", "node", "phase", "kubelet-config")
_DRY_RUN_DIR = "KUBEADM_UPGRADE_DRYRUN_DIR"
_WORK_PARENT, _WORK_NAME = "/run", "kubeadm-patches"
_SECONDS = 120


def patch_resource(host: Host, running: Kubelet, directory: str, settings: Mapping[str, Any]) -> Resource:
    """The patch in that directory. HostError if kubeadm would not write it into the file that this kubelet reads, or would change
    something else there; UserError for an unreadable file."""
    base = find_base_path(host, running)
    if base != CONFIG:
        raise MESSAGES.error(
            "pulls-node-kubeadm-config", started=f"with --config={base}" if base else "without --config"
        )
    path = os.path.join(directory, FILE_NAME)
    resource = drop_in(KIND, path, drop_in_text(settings), title=f"kubeadm's patch {path}")
    there = _read(host, path)
    if there != resource.value:
        _refuse_other_changes(host, path, str(fields(resource.value)["text"]), also=_keys(there))
    return resource


class KubeadmPatchKind(KubeletKind):
    """`{text}`: the patch, with the mark also when the kubelet's file lacks its content, as after a `kubeadm upgrade` without
    --patches."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return _read(ctx.host, target)

    def prepare(self, ctx: Context[ImagePullsRequest], target: str, text: str, *, rolls_back: bool) -> Any:
        if not rolls_back:
            _refuse_other_changes(ctx.host, target, text, also=_keys(_read(ctx.host, target)))

    def take_effect(
        self, ctx: Context[ImagePullsRequest], target: str, text: str, seen: Any, *, rolls_back: bool
    ) -> None:
        _run(ctx.host, os.path.dirname(target))
        restart_kubelet(ctx)
        if not rolls_back:
            require_in_effect(ctx, target, drop_in_settings(text))
        ctx.progress.done("kubelet", "healthy")


def _read(host: Host, path: str) -> Value:
    data = host.read(path)
    if data is None:
        return ABSENT
    text = data.decode(errors="surrogateescape")
    settings, config = drop_in_settings(text), _config(host, CONFIG)
    is_lost = config is not None and differing_keys(settings, config)
    return {"text": f"{MARK}{text}" if is_lost and MARK not in text else text}


def _keys(value: Value) -> Collection[str]:
    return () if value == ABSENT else tuple(drop_in_settings(str(fields(value)["text"])))


def _refuse_other_changes(host: Host, path: str, text: str, *, also: Collection[str]) -> None:
    """HostError if kubeadm, with `text` as our patch, would change other keys than those of `text` and `also`, or would not write the
    values of `text`."""
    directory, settings = os.path.dirname(path), drop_in_settings(text)
    now, then = _config(host, CONFIG) or {}, _dry_run(host, path, text)
    changed = differing_keys(then, now) + [key for key in now if key not in then]
    others = sorted(set(changed) - {*settings, *also})
    if others:
        raise MESSAGES.error("pulls-node-kubeadm-differs", keys=", ".join(others), path=CONFIG, directory=directory)
    for key in differing_keys(settings, then):
        where = f"the patches after it in {directory}, and {_KUBELET_DIR}/{_INSTANCE},"
        shown = {"what": CONFIG, "key": key, "wanted": json.dumps(settings[key]), "path": path, "where": where}
        raise MESSAGES.error("pulls-node-not-in-effect", found=f"{key}: {json.dumps(then.get(key))}", **shown)


def _dry_run(host: Host, path: str, text: str) -> Mapping[str, Any]:
    """What kubeadm would write if the file `path` had the content `text`. Runs in a temporary directory."""
    with host.work_directory(_WORK_PARENT, _WORK_NAME) as work:
        patches, result = os.path.join(work, "patches"), os.path.join(work, "result")
        for directory in (patches, result):
            host.make_directory(directory, mode=0o700)
        for name in host.listdir(os.path.dirname(path)):
            _copy(host, os.path.join(os.path.dirname(path), name), os.path.join(patches, name))
        host.write(os.path.join(patches, FILE_NAME), text.encode(errors="surrogateescape"), mode=0o600)
        _copy(host, os.path.join(_KUBELET_DIR, _INSTANCE), os.path.join(result, _INSTANCE))
        _run(host, patches, "--dry-run", shown=os.path.dirname(path), env={_DRY_RUN_DIR: result})
        config = _config(host, os.path.join(result, os.path.basename(CONFIG)))
    if config is None:
        raise MESSAGES.error("pulls-node-kubeadm-version", variable=_DRY_RUN_DIR)
    return config


def _copy(host: Host, path: str, to: str) -> None:
    stat = host.stat(path)
    data = host.read(path) if stat is not None and stat.kind == "file" else None
    if data is not None:
        host.write(to, data, mode=0o600)


def _run(host: Host, patches: str, *flags: str, shown: str = "", env: Optional[Mapping[str, str]] = None) -> None:
    try:
        host.run([*_PHASE, "--patches", patches, *flags], timeout=_SECONDS, env=env or {})
    except (CommandFailed, Unavailable) as error:
        raise MESSAGES.error("pulls-node-kubeadm", why=error.found or error.text, directory=shown or patches) from error


def _config(host: Host, path: str) -> Optional[Mapping[str, Any]]:
    """The keys of a KubeletConfiguration file; None when it is absent."""
    data = host.read(path)
    return None if data is None else mapping_in(parse_document(data.decode(errors="replace"), name=path))
