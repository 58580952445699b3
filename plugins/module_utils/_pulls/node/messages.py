# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors of a node's limits of image pulls."""

from __future__ import annotations

from ..._core.kube.kubelet_api import ALLOW
from ..._core.text.errors import HostError, Message, Messages, PeerError, UserError
from .managed import MANAGED_ROWS

_AGAIN = "then run the same command again"

MESSAGES = Messages(
    "docs/reference/errors-image-pulls.md",
    [
        *MANAGED_ROWS,
        Message(
            id="pulls-node-value",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="give a value of that kind, or leave {path} out, which leaves it to the node's own configuration",
        ),
        Message(
            id="pulls-node-serial",
            error=UserError,
            text="max_parallel_image_pulls: {value} and serialize_image_pulls: true exclude each other",
            remedy="leave serialize_image_pulls out: with max_parallel_image_pulls alone both keys are written as they belong together",
        ),
        Message(
            id="pulls-node-service",
            error=HostError,
            text="{option}: there is no service {service} here, or it does not run",
            remedy="name the systemd unit, or the directory of the runit service, that runs {what}, as {option}; start it where it is down",
        ),
        Message(
            id="pulls-node-config-dir",
            error=HostError,
            text="the kubelet is started without --config-dir, and its unit reads no KUBELET_EXTRA_ARGS, where the flag would be added",
            remedy="make /etc/kubernetes/kubelet.conf.d, add --config-dir=/etc/kubernetes/kubelet.conf.d to the kubelet's command line "
            "(kubespray: kubelet_custom_flags), restart it (Kubernetes 1.30 and newer), "
            + _AGAIN
            + "; or set kubeadm_patches",
        ),
        Message(
            id="pulls-node-config-dir-later",
            error=HostError,
            text="{path} has --config-dir, and the kubelet that runs was started without it",
            remedy="restart the kubelet (systemctl restart kubelet), " + _AGAIN,
        ),
        Message(
            id="pulls-node-kubelet-version",
            error=HostError,
            text="this kubelet ({version}) reads no drop-ins: --config-dir is for Kubernetes 1.30 and newer",
            remedy="upgrade the node; until then set the keys in its configuration file (kubeadm: the ConfigMap kubelet-config, then "
            "`kubeadm upgrade node phase kubelet-config` on the node, and restart the kubelet)",
        ),
        Message(
            id="pulls-node-kubeadm",
            error=HostError,
            text="kubeadm upgrade node phase kubelet-config failed: {why}",
            remedy="run `kubeadm upgrade node phase kubelet-config --patches {directory} --dry-run` on the node and fix what it prints, "
            + _AGAIN
            + "; leave kubeadm_patches out where kubeadm did not make the node",
        ),
        Message(
            id="pulls-node-kubeadm-version",
            error=HostError,
            text="the dry run of this kubeadm does not write into {variable}",
            remedy="install kubeadm 1.35 or newer, or leave kubeadm_patches out, which writes a drop-in",
        ),
        Message(
            id="pulls-node-kubeadm-config",
            error=HostError,
            text="the kubelet is started {started}, and kubeadm writes /var/lib/kubelet/config.yaml",
            remedy="leave kubeadm_patches out on this node, which writes a drop-in",
        ),
        Message(
            id="pulls-node-kubeadm-differs",
            error=HostError,
            text="kubeadm would also change {keys} of {path}: the node's file is not what the ConfigMap kubelet-config and the patches "
            "in {directory} give",
            remedy="put those settings into the ConfigMap or into a patch there; or, where the file is outdated, run `kubeadm upgrade node "
            "phase kubelet-config --patches {directory}` on the node and restart the kubelet; " + _AGAIN,
        ),
        Message(
            id="pulls-node-flag",
            error=HostError,
            text="{flag} on the kubelet's command line wins over any file, so {key} would have no effect",
            remedy="remove {flag} there, restart the kubelet, " + _AGAIN,
        ),
        Message(
            id="pulls-node-kubelet-failed",
            error=PeerError,
            text="the kubelet was not healthy {seconds} seconds after its start with the new settings",
            remedy="see the kubelet's log",
        ),
        Message(
            id="pulls-node-not-in-effect",
            error=PeerError,
            text="{what} does not have {key}: {wanted} in effect",
            remedy="see {where} for what sets {key} besides {path}, and whether {what} was started since",
        ),
        Message(
            id="pulls-node-not-read-back",
            error=PeerError,
            text="what the kubelet has in effect could not be read: {why}",
            remedy=f"name as kubeconfig one that {ALLOW}; the kubelet's health was checked all the same",
        ),
        Message(
            id="pulls-node-runtime",
            error=HostError,
            text="the container runtime of this node could not be determined: {why}",
            remedy="set container_runtime, and runtime_service to the systemd unit or the directory of the runit service that runs it",
        ),
        Message(
            id="pulls-node-docker",
            error=HostError,
            text="the kubelet's runtime is Docker, behind cri-dockerd at {endpoint}: no containerd or CRI-O of this machine pulls for it",
            remedy="leave runtime out, and set max-concurrent-downloads (layers of each pull; 3 unless it is set) in "
            "/etc/docker/daemon.json, then reload it: systemctl reload docker",
        ),
        Message(
            id="pulls-node-cri-disabled",
            error=HostError,
            text="containerd has its CRI plugin disabled (disabled_plugins of {path}), so no kubelet pulls through it",
            remedy="see which runtime the kubelet uses (--container-runtime-endpoint, or containerRuntimeEndpoint in its configuration), and "
            "name its service as runtime_service; if it is this one, take the CRI plugin out of disabled_plugins, restart containerd, "
            + _AGAIN,
        ),
        Message(
            id="pulls-node-import",
            error=HostError,
            text="{path}, which {main} imports, replaces the CRI plugin's whole table: before 2.0, containerd merges no tables of imported files",
            remedy="set max_concurrent_downloads in {path} by hand, or move what it has of the CRI plugin into {main}, restart containerd, "
            + _AGAIN,
        ),
        Message(
            id="pulls-node-runtime-version",
            error=HostError,
            text="the settings of containerd {version} are not known",
            remedy="use containerd 1.6, 1.7 or 2, or set its limits by hand",
        ),
        Message(
            id="pulls-node-runtime-key",
            error=UserError,
            text="runtime.{key} is no setting of {runtime}{why}",
            remedy="{hint}",
        ),
        Message(
            id="pulls-node-runtime-config",
            error=HostError,
            text="{path} cannot be used: {why}",
            remedy="{hint}, restart containerd, " + _AGAIN,
        ),
        Message(
            id="pulls-node-local-pull",
            error=HostError,
            text="max_concurrent_downloads = {value} in the CRI plugin's table has made containerd pull without its transfer service",
            remedy="take it out of the CRI plugin's table (this module then sets that of the transfer service), or set "
            "use_local_image_pull = true there to keep it so, restart containerd, " + _AGAIN,
        ),
        Message(
            id="pulls-node-runtime-failed",
            error=PeerError,
            text="{runtime} was not healthy {seconds} seconds after its start with the new settings",
            remedy="see the log of {runtime}",
        ),
        Message(
            id="pulls-node-no-proxy",
            error=HostError,
            text="host: there is no pull proxy here: {path} is absent",
            remedy="install it first: ansible-playbook ballast.kube.image_pull_proxy, or the role of that name",
        ),
        Message(
            id="pulls-node-proxy-refused",
            error=PeerError,
            text="the pull proxy did not apply the new limits within {seconds} seconds",
            remedy="see its log, {log}, and what `ballast-pull-proxy check --config {path}` says",
        ),
    ],
)
