# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of a host's instances, kept so that another controller can change the instances.

STATE_DIR/options.json            the options of the last run, without keys and proxies
STATE_DIR/NAME/pki                the keys
STATE_DIR/NAME/etc/proxies.env    the proxies
STATE_DIR/NAME/kube-proxy         the journal of ballast.kube.kube_proxy for the instance's kube-proxy
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Optional

from .._core.engine.journal import journal_path
from .._core.engine.kinds import file
from .._core.engine.plan import Resource
from .._core.host.host import Host
from .._core.service.service import parse_env_file
from .._core.text.json_text import parse_object
from .model import BALLAST, CREDENTIAL_FILES, Instance, InstancesRequest, Taint, desired_from_params
from .process_readings import read_proxy_backend
from .proxies import Proxies


def options_file(desired: InstancesRequest, group: str) -> Resource:
    """The file that `read_options` reads."""
    return file(_path(desired.state_dir), json.dumps(_options(desired), indent=1) + "\n", group=group)


def read_options(host: Host, state_dir: str) -> Optional[dict[str, Any]]:
    """The options of the last run; None when there is no record, or it cannot be parsed."""
    return parse_object(host.read(_path(state_dir)))


def desired_over_record(params: Mapping[str, Any], host: Host) -> InstancesRequest:
    """The request, in which instances keep a changed kube-proxy, their keys when neither `ca` nor `credentials` are given, and
    their proxies when `proxies` is not given."""
    desired = desired_from_params(params, host)
    if desired.state != "present":
        return desired
    instances = tuple(_with_kube_proxy(instance, desired.state_dir, host) for instance in desired.instances)
    desired = replace(desired, instances=instances)
    if params["proxies"] is None:
        desired = replace(desired, proxies=_read_proxies(host, desired))
    if params["ca"] is not None or params["credentials"] is not None:
        return desired
    credentials = {instance.name: _read_keys(host, desired.state_dir, instance.name) for instance in instances}
    authorities = [keys.pop("ca.crt") for keys in credentials.values()]
    return replace(desired, ca=next((text for text in authorities if text), ""), credentials=credentials)


def _with_kube_proxy(instance: Instance, state_dir: str, host: Host) -> Instance:
    """Only kube_proxy may undo a change in its journal: if this module overwrote the files, the next restart would end the change
    without a takeover table. Until then the instance keeps kube-proxy, whatever is requested."""
    home = os.path.join(state_dir, instance.name)
    if not host.read(journal_path(os.path.join(home, "kube-proxy"))):
        return instance
    text = host.read(os.path.join(home, "etc/kube-proxy.json")) or b""
    backend = read_proxy_backend(home, instance, host) if instance.proxy_backend == BALLAST else instance.proxy_backend
    return replace(instance, proxy_backend=backend, kube_proxy_config=text.decode(errors="replace"))


def proxies_path(state_dir: str, instance: str) -> str:
    """The environment file of an instance's containerd."""
    return os.path.join(state_dir, instance, "etc/proxies.env")


def _path(state_dir: str) -> str:
    return os.path.join(state_dir, "options.json")


def _read_proxies(host: Host, desired: InstancesRequest) -> Proxies:
    """The recorded proxies, which are the same for all instances; a new instance has none yet."""
    files = (host.read(proxies_path(desired.state_dir, instance.name)) for instance in desired.instances)
    return parse_env_file((next((data for data in files if data), b"")).decode(errors="replace"))


def _read_keys(host: Host, state_dir: str, instance: str) -> dict[str, str]:
    """The keys by file name; a missing file is an empty text."""
    names = ["ca.crt", *(name for _option, name in CREDENTIAL_FILES)]
    return {
        name: (host.read(os.path.join(state_dir, instance, "pki", name)) or b"").decode(errors="replace")
        for name in names
    }


def _options(desired: InstancesRequest) -> dict[str, Any]:
    return {
        "lab": desired.lab,
        "instances": [_instance(instance) for instance in desired.instances],
        "bridge": desired.bridge,
        "gateway": desired.gateway,
        "api_server": desired.api_server,
        "cluster_cidr": desired.cluster_cidr,
        "cluster_dns": list(desired.cluster_dns),
        "feature_gates": dict(desired.feature_gates),
        "kube_proxy": desired.kube_proxy,
        "certs_dir": desired.certs_dir,
        "registry_mirrors": {registry: list(urls) for registry, urls in desired.registry_mirrors},
        "bin_dir": desired.bin_dir,
        "kubernetes_version": desired.kubernetes_version,
        "cgroup_driver": desired.cgroup_driver,
        "archives": [{"path": archive.path, "images": dict(archive.images)} for archive in desired.archives],
    }


def _instance(instance: Instance) -> dict[str, Any]:
    """An instance as an option row, without options that are not set."""
    row = {
        "name": instance.name,
        "address": instance.address,
        "pod_cidr": instance.pod_cidr,
        "labels": dict(instance.labels),
        "taints": [_taint(taint) for taint in instance.taints],
        "startup_taints": [_taint(taint) for taint in instance.startup_taints],
        "cpu": None if instance.cpu_millis is None else f"{instance.cpu_millis}m",
        "memory": None if instance.memory_bytes is None else str(instance.memory_bytes),
        "pids": instance.pids,
        "proxy_backend": instance.proxy_backend,
        "runtime": instance.runtime,
        "kubelet": dict(instance.kubelet),
        "mounts": [mount.as_value() for mount in instance.mounts],
        "stopped": instance.stopped,
        "bin_dir": instance.bin_dir,
        "kubernetes_version": instance.kubernetes_version,
    }
    return {name: value for name, value in row.items() if value not in (None, "", {}, [], False)}


def _taint(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}
