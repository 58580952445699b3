# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of an instance: containerd, kubelet, and the proxy that serves its Services. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Optional

from .._core.engine.kinds import digest
from .._core.engine.plan import Resource
from .._core.service.sandbox import Sandbox
from .._core.service.service import Service
from . import config, service_proxy
from .model import DAEMONSET, KUBE_PROXY, SERVICE_PROXY, Instance, InstancesRequest
from .network import netns_path
from .places import home_of, log_path, mountns_path

_CONTAINERD, _KUBELET = "containerd", "kubelet"
# The garbage, relative to the live heap, at which Go collects (default 100 %). A host runs many of these, mostly idle.
_COLLECT_EARLY = ("GOGC", "50")
_SANDBOXES = {
    # For rules, ports, its OOM score, and modules: kube-proxy itself loads those of ipvs.
    KUBE_PROXY: Sandbox(
        host=True,
        capabilities=("CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SYS_MODULE", "CAP_SYS_RESOURCE"),
    ),
    SERVICE_PROXY: Sandbox(host=True, capabilities=("CAP_NET_ADMIN",)),
}


def services_of(desired: InstancesRequest, instance: Instance) -> tuple[str, ...]:
    """The instance's services; without kube-proxy where the cluster's DaemonSet runs it."""
    return (_CONTAINERD, _KUBELET, *([instance.proxy] if desired.kube_proxy != DAEMONSET else []))


def services(
    desired: InstancesRequest, instance: Instance, files: Sequence[Resource], variables: Optional[Resource]
) -> list[Service]:
    """The services, with the digests of the files whose change restarts them. The proxy depends on its own files among `files` and on
    the API server's authority, containerd and kubelet on the others, containerd also on `variables`, the file of its proxies.
    Private keys are among the files, so nobody can find a proxy's password by trying digests."""
    of_proxy = [part for part in files if _is_of(instance.proxy, part.target)]
    of_node = [part for part in files if part not in of_proxy]
    mounts = json.dumps([mount.as_value() for mount in instance.mounts], sort_keys=True) if instance.mounts else ""
    home = home_of(desired, instance)
    commands = {
        _CONTAINERD: (f"{desired.bin_dir}/containerd", f"--config={home}/etc/containerd.toml"),
        _KUBELET: config.kubelet_arguments(desired, instance, home),
        KUBE_PROXY: (f"{desired.bin_dir}/kube-proxy", f"--config={home}/etc/kube-proxy.json"),
        SERVICE_PROXY: service_proxy.command(home),
    }
    digests = {
        _CONTAINERD: _digest([*of_node, *([] if variables is None else [variables])], mounts),
        _KUBELET: _digest(of_node, mounts),
        instance.proxy: _digest([*of_proxy, *_authority(files)], mounts),
    }
    if instance.proxy == SERVICE_PROXY:
        digests[SERVICE_PROXY] = digest(digests[SERVICE_PROXY], service_proxy.sources())
    search = f"{desired.bin_dir}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    # containerd finds its shim and the OCI runtime in this PATH, and passes both variables on to its shims.
    go = (("PATH", search), _COLLECT_EARLY)
    own = {SERVICE_PROXY: tuple(service_proxy.environment(desired.lab, instance).items())}
    return [
        Service(
            name=desired.unit(instance, name),
            argv=commands[name],
            log=log_path(desired, instance, name),
            cgroup=f"{desired.cgroup(instance)}/{name}",
            config_digest=digests[name],
            env=own.get(name, go),
            env_file=variables.target if variables is not None and name == _CONTAINERD else None,
            netns=netns_path(desired.unit(instance)),
            mountns=mountns_path(desired.lab, instance.name),
            keep_children=name == _CONTAINERD,
            sandbox=_SANDBOXES.get(name),
        )
        for name in services_of(desired, instance)
    ]


def _is_of(proxy: str, path: str) -> bool:
    return os.path.basename(path).rpartition(".")[0] == proxy


def _authority(files: Sequence[Resource]) -> list[Resource]:
    return [part for part in files if os.path.basename(part.target) == "ca.crt"]


def _digest(files: Sequence[Resource], mounts: str) -> str:
    return digest(*(json.dumps(part.value, sort_keys=True) for part in files), *([mounts] if mounts else []))
