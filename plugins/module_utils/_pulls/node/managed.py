# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors for a node whose kubelet and runtime a distribution configures, each with that distribution's own way.

The kubelet has no flag for maxParallelImagePulls: where only flags can be given, it cannot be set.
"""

from __future__ import annotations

from ..._core.text.errors import HostError, Message

_TEXT = "{name} runs the kubelet of this node and writes its configuration, so nothing is changed here"
_KEYS = "maxParallelImagePulls, serializeImagePulls, registryPullQPS and registryBurst"


def _row(id: str, remedy: str) -> Message:
    return Message(id=id, error=HostError, text=_TEXT, remedy=remedy)


# Of each distribution: the id of its error.
MANAGED = {
    "k3s": "pulls-node-rancher",
    "rke2": "pulls-node-rancher",
    "k0s": "pulls-node-k0s",
    "microk8s": "pulls-node-microk8s",
    "k8s-snap": "pulls-node-k8s-snap",
    "microshift": "pulls-node-microshift",
    "openshift": "pulls-node-openshift",
    "minikube": "pulls-node-minikube",
    "kind": "pulls-node-kind",
    "bottlerocket": "pulls-node-bottlerocket",
    "talos": "pulls-node-talos",
}
MANAGED_ROWS = [
    _row(
        "pulls-node-rancher",
        "add `kubelet-arg: [serialize-image-pulls=false, registry-qps=5, registry-burst=10]`, with the values that you need, to "
        "/etc/rancher/{name}/config.yaml, or `kubelet-arg+: [...]` to a file of /etc/rancher/{name}/config.yaml.d. For "
        "maxParallelImagePulls, which has no flag, put a KubeletConfiguration into a *.conf file of "
        "/var/lib/rancher/{name}/agent/etc/kubelet.conf.d (1.32 and newer). For containerd, extend "
        "/var/lib/rancher/{name}/agent/etc/containerd/config.toml.tmpl (config-v3.toml.tmpl for containerd 2). Then restart the "
        "service of {name}",
    ),
    _row(
        "pulls-node-k0s",
        f"set {_KEYS} in a worker profile (spec.workerProfiles of the k0s configuration, with `k0s worker --profile`). For "
        "containerd, put a file into /etc/k0s/containerd.d. Then restart the k0s service",
    ),
    _row(
        "pulls-node-microk8s",
        "add --serialize-image-pulls=false, --registry-qps and --registry-burst to /var/snap/microk8s/current/args/kubelet "
        "(maxParallelImagePulls has no flag), and for containerd change "
        "/var/snap/microk8s/current/args/containerd-template.toml. Then restart it: microk8s stop; microk8s start",
    ),
    _row(
        "pulls-node-k8s-snap",
        "give extra-node-kubelet-args (serialize-image-pulls, registry-qps, registry-burst) and extra-node-containerd-config at "
        "`k8s bootstrap` and `k8s join-cluster`",
    ),
    _row(
        "pulls-node-microshift",
        f"set {_KEYS} below `kubelet:` in /etc/microshift/config.yaml or a file of /etc/microshift/config.d, then restart it: "
        "systemctl restart microshift",
    ),
    _row(
        "pulls-node-openshift",
        f"apply a KubeletConfig (machineconfiguration.openshift.io/v1) with {_KEYS} in its spec.kubeletConfig; for CRI-O a "
        "ContainerRuntimeConfig or a MachineConfig. The Machine Config Operator writes them to the nodes",
    ),
    _row(
        "pulls-node-minikube",
        "start it with the settings: minikube start --extra-config=kubelet.serialize-image-pulls=false (also "
        "kubelet.registry-qps and kubelet.registry-burst; maxParallelImagePulls has no flag)",
    ),
    _row(
        "pulls-node-kind",
        f"make the cluster with the settings: {_KEYS} in a KubeletConfiguration below kubeadmConfigPatches, and for containerd "
        "containerdConfigPatches, of the file for `kind create cluster --config`",
    ),
    _row(
        "pulls-node-bottlerocket",
        "set them through its API: apiclient set settings.kubernetes.registry-qps=5 settings.kubernetes.registry-burst=10 "
        "settings.container-runtime.max-concurrent-downloads=3",
    ),
    _row(
        "pulls-node-talos",
        f"set {_KEYS} below machine.kubelet.extraConfig in the machine configuration, and for containerd a file "
        "/etc/cri/conf.d/20-customization.part below machine.files; then apply it: talosctl apply-config",
    ),
]
