# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of a kubelet: its flags, and the files that it reads.

Precedence, lowest first: defaults, --config, the files of --config-dir in the order of their paths, flags. Source: k8s.io/
kubernetes/cmd/kubelet/app/server.go, mergeKubeletConfigurations and kubeletConfigFlagPrecedence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from .._core.host.host import Host
from .._core.service.daemon import flag_value
from .._core.text.document import parse_document
from .._core.text.json_text import mapping_in
from .find import Kubelet, absolute_path

DEFAULT_ENDPOINT = "unix:///run/containerd/containerd.sock"  # SetDefaults_KubeletConfiguration
_FLAG, _KEY = "--container-runtime-endpoint", "containerRuntimeEndpoint"
_SCHEME = "unix://"


class ConfigFile(NamedTuple):
    """`is_base`: the file of --config, whose omitted keys get defaults; a file of --config-dir only sets its own keys."""

    path: str
    settings: Mapping[str, Any]
    is_base: bool


def find_config_dir(host: Host, kubelet: Kubelet) -> str:
    """--config-dir of the running kubelet; "" if it has none."""
    return absolute_path(host, kubelet, flag_value(kubelet.argv, "--config-dir") or "")


def read_config_files(host: Host, kubelet: Kubelet) -> list[ConfigFile]:
    """The files that the kubelet reads, lowest precedence first. Raises as `parse_document` does."""
    base = find_base_path(host, kubelet)
    return [
        ConfigFile(path, mapping_in(parse_document(text, name=path)), is_base=path == base)
        for path, text in _config_texts(host, kubelet)
    ]


def runtime_endpoint(host: Host, kubelet: Kubelet) -> str:
    """The endpoint of this kubelet's container runtime, as configured."""
    flag = flag_value(kubelet.argv, _FLAG)
    if flag:
        return flag
    values = [file.settings.get(_KEY) for file in read_config_files(host, kubelet)]
    given = [value for value in values if isinstance(value, str) and value]
    return given[-1] if given else DEFAULT_ENDPOINT


def socket_path(endpoint: str) -> str:
    """The path of a unix socket; "" for any other endpoint. The kubelet accepts a plain path, with a warning."""
    path = endpoint[len(_SCHEME) :] if endpoint.startswith(_SCHEME) else endpoint
    return path if path.startswith("/") else ""


def _config_texts(host: Host, kubelet: Kubelet) -> list[tuple[str, str]]:
    directory = find_config_dir(host, kubelet)
    base = find_base_path(host, kubelet)
    paths = ([base] if base else []) + (_drop_ins(host, directory) if directory else [])
    texts = ((path, host.read(path)) for path in paths)
    return [(path, data.decode(errors="replace")) for path, data in texts if data is not None]


def find_base_path(host: Host, kubelet: Kubelet) -> str:
    """--config of the kubelet; "" if it has none."""
    return absolute_path(host, kubelet, flag_value(kubelet.argv, "--config") or "")


def _drop_ins(host: Host, directory: str) -> list[str]:
    """Drop-ins in the order in which the kubelet reads them, that of filepath.WalkDir."""
    paths = []
    for name in sorted(host.listdir(directory)):
        path = os.path.join(directory, name)
        stat = host.stat(path)
        if stat is not None and stat.kind == "directory":
            paths += _drop_ins(host, path)
        elif name.endswith(".conf"):
            paths.append(path)
    return paths
