# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of one instance: kubelet, kube-proxy, containerd and CNI configuration. Pure, byte-stable.

JSON is written where YAML is read: it is valid YAML, and its form is fixed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from .._core.text.ip_families import is_ipv6, split, with_port
from .._core.text.toml_text import toml_string
from .model import Instance, InstancesRequest, Taint
from .view import CONTAINERD_STATE, KUBELET_ROOT

SANDBOX_IMAGE = "ballast.local/pause:1"
# By default containerd 2.3 asks the shim of each container every second; a kubelet reads its cgroups every ten.
STATS_PERIOD = "10s"
CONTAINERD_SOCKET = f"{CONTAINERD_STATE}/containerd.sock"
PROXY_HEALTH_PORT = 10256
KUBE_RESERVED_MEMORY = "200Mi"
EVICTION_MEMORY = "100Mi"
_DEFAULT_ROUTES = {False: "0.0.0.0/0", True: "::/0"}  # key: whether the network is IPv6


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def kubeconfig(desired: InstancesRequest, pki: str, name: str) -> str:
    """`name` is the stem of the client certificate's files in `pki`."""
    return _json(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "lab", "cluster": {"server": desired.api_server, "certificate-authority": f"{pki}/ca.crt"}}
            ],
            "users": [
                {"name": name, "user": {"client-certificate": f"{pki}/{name}.crt", "client-key": f"{pki}/{name}.key"}}
            ],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}],
            "current-context": "lab",
        }
    )


def kubelet(desired: InstancesRequest, instance: Instance, home: str) -> str:
    """Its KubeletConfiguration as JSON, with the options of the instance. `home` is the instance's directory."""
    systemd = desired.cgroup_driver == "systemd"
    cgroup_root = f"/ballast/{desired.lab}/{instance.name}" if systemd else f"/{desired.cgroup(instance)}"
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": instance.primary_address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{home}/pki/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": desired.cgroup_driver,
            "cgroupRoot": cgroup_root,
            **({"clusterDNS": list(desired.cluster_dns)} if desired.cluster_dns else {}),
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            # All instances share one filesystem, so each would evict for all of them (kind also disables it).
            "evictionHard": {
                "imagefs.available": "0%",
                "memory.available": EVICTION_MEMORY,
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            **_image_policy(desired.kubernetes_version),
            "failCgroupV1": False,
            "failSwapOn": False,
            # Kubelet, containerd and the proxy are in the same slice as the pods.
            "kubeReserved": {"memory": KUBE_RESERVED_MEMORY},
            "podLogsDir": f"{home}/log/pods",
            "registerWithTaints": _taints(instance.taints),
            **({"resolvConf": desired.resolv_conf} if desired.resolv_conf else {}),
            "tlsCertFile": f"{home}/pki/kubelet-serving.crt",
            "tlsPrivateKeyFile": f"{home}/pki/kubelet-serving.key",
            "volumePluginDir": f"{home}/volume-plugins",
            **_gates(desired),
            **instance.kubelet,
        }
    )


def _image_policy(kubernetes_version: str) -> dict[str, str]:
    """Images from archives run regardless of earlier pulls. By default a kubelet remembers pulled images by content; it would
    then also pull an archive's image with that content, whose name no registry has. From 1.35 on (KEP-2535)."""
    release = re.match(r"1\.(\d{1,3})\.", kubernetes_version)
    is_checked = release is not None and int(release[1]) >= 35
    return {"imagePullCredentialsVerificationPolicy": "NeverVerify"} if is_checked else {}


def _gates(desired: InstancesRequest) -> dict[str, Any]:
    return {"featureGates": dict(desired.feature_gates)} if desired.feature_gates else {}


def startup_taints(instance: Instance) -> str:
    """A kubelet drop-in. Its list of taints replaces that of the main file, so it repeats those taints."""
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "registerWithTaints": _taints((*instance.taints, *instance.startup_taints)),
        }
    )


def _taints(taints: Sequence[Taint]) -> list[dict[str, str]]:
    return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints]


def kube_proxy(desired: InstancesRequest, instance: Instance, home: str) -> str:
    """Its KubeProxyConfiguration as JSON."""
    # nf_conntrack_max belongs to the whole host: leave it alone.
    own = {"conntrack": {"maxPerCore": 0}, "mode": instance.proxy_backend}
    return _json({**_proxy(desired, instance, home), **own})


def service_proxy(desired: InstancesRequest, instance: Instance, home: str) -> str:
    """The configuration of ballast-service-proxy. It needs no conntrack settings, as it changes none in the kernel."""
    return _json({**_proxy(desired, instance, home), "mode": "nftables"})


def _proxy(desired: InstancesRequest, instance: Instance, home: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{home}/etc/{instance.proxy}.kubeconfig"},
        "clusterCIDR": desired.cluster_cidr,
        "healthzBindAddress": with_port(instance.primary_address, PROXY_HEALTH_PORT),
        "hostnameOverride": instance.name,
        "metricsBindAddress": "127.0.0.1:10249",
        "nodePortAddresses": ["primary"],
        **_gates(desired),
    }


def containerd(desired: InstancesRequest, instance: Instance, home: str) -> str:
    """Configuration version 3, for containerd 2."""
    text = {
        "root": f"{home}/containerd",
        "opt": f"{home}/opt",
        "cni": f"{home}/etc/cni",
        "bin_dir": desired.bin_dir,
        "sandbox": SANDBOX_IMAGE,
        "binary": instance.runtime,
        "state": CONTAINERD_STATE,
        "socket": CONTAINERD_SOCKET,
        "imports": f"{home}/etc/containerd.conf.d/*.toml",
        "certs": desired.certs_dir,
    }
    quoted = {name: toml_string(value) for name, value in text.items()}
    return f"""version = 3
root = {quoted["root"]}
state = {quoted["state"]}
imports = [{quoted["imports"]}]
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = {quoted["socket"]}

[plugins."io.containerd.internal.v1.opt"]
path = {quoted["opt"]}

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = {quoted["sandbox"]}

[plugins."io.containerd.cri.v1.images".registry]
config_path = {quoted["certs"]}

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = {"false" if desired.lowers_oom_scores else "true"}
stats_collect_period = "{STATS_PERIOD}"

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{quoted["bin_dir"]}]
conf_dir = {quoted["cni"]}

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = {quoted["binary"]}
SystemdCgroup = {"true" if desired.cgroup_driver == "systemd" else "false"}
"""


def cni(desired: InstancesRequest, instance: Instance) -> str:
    """`ptp` routes every packet through the node's own stack, so that Service rules see both directions without the
    host-wide module br_netfilter. Leases are in /var/lib/cni, a tmpfs of the instance, so they end with its pods."""
    return _json(
        {
            "cniVersion": "1.0.0",
            "name": desired.unit(instance),
            "plugins": [
                {
                    "type": "ptp",
                    "ipMasq": False,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": network}] for network in split(instance.pod_cidr)],
                        "routes": [{"dst": _DEFAULT_ROUTES[is_ipv6(network)]} for network in split(instance.pod_cidr)],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }
    )


def kubelet_arguments(desired: InstancesRequest, instance: Instance, home: str) -> tuple[str, ...]:
    """The command line, with the program."""
    labels = ",".join(f"{key}={value}" for key, value in instance.labels)
    return (
        f"{desired.bin_dir}/kubelet",
        f"--config={home}/etc/kubelet.json",
        f"--config-dir={home}/etc/kubelet.conf.d",
        f"--kubeconfig={home}/etc/kubelet.kubeconfig",
        f"--hostname-override={instance.name}",
        f"--node-ip={instance.address}",
        f"--root-dir={KUBELET_ROOT}",
        f"--cert-dir={home}/pki",
        *([f"--node-labels={labels}"] if labels else []),
    )
