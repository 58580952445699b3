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
            remedy="set such a value, or omit {path} to keep the node's own configuration",
        ),
        Message(
            id="pulls-node-serial",
            error=UserError,
            text="max_parallel_image_pulls: {value} and serialize_image_pulls: true exclude each other",
            remedy="omit serialize_image_pulls: max_parallel_image_pulls alone writes both keys consistently",
        ),
        Message(
            id="pulls-node-service",
            error=HostError,
            text="{option}: service {service} does not exist on this node or is not running",
            remedy="set {option} to the systemd unit or runit service directory that runs {what}; start it if it is stopped",
        ),
        Message(
            id="pulls-node-config-dir",
            error=HostError,
            text="the kubelet runs without --config-dir, and its unit does not read KUBELET_EXTRA_ARGS, so the flag cannot be added",
            remedy="create /etc/kubernetes/kubelet.conf.d, add --config-dir=/etc/kubernetes/kubelet.conf.d to the kubelet's command line "
            "(kubespray: kubelet_custom_flags), restart it (Kubernetes 1.30 and newer), "
            + _AGAIN
            + "; or set kubeadm_patches",
        ),
        Message(
            id="pulls-node-config-dir-later",
            error=HostError,
            text="{path} has --config-dir, but the running kubelet was started without it",
            remedy="restart the kubelet (systemctl restart kubelet), " + _AGAIN,
        ),
        Message(
            id="pulls-node-kubelet-version",
            error=HostError,
            text="this kubelet ({version}) does not support drop-ins: --config-dir needs Kubernetes 1.30 or newer",
            remedy="upgrade the node; until then set the keys in its configuration file (kubeadm: the ConfigMap kubelet-config, then "
            "`kubeadm upgrade node phase kubelet-config` on the node, and restart the kubelet)",
        ),
        Message(
            id="pulls-node-kubeadm",
            error=HostError,
            text="kubeadm upgrade node phase kubelet-config failed: {why}",
            remedy="run `kubeadm upgrade node phase kubelet-config --patches {directory} --dry-run` on the node and fix what it prints, "
            + _AGAIN
            + "; omit kubeadm_patches if kubeadm did not create the node",
        ),
        Message(
            id="pulls-node-kubeadm-version",
            error=HostError,
            text="the dry run of this kubeadm does not write into {variable}",
            remedy="install kubeadm 1.35 or newer, or omit kubeadm_patches to write a drop-in",
        ),
        Message(
            id="pulls-node-kubeadm-config",
            error=HostError,
            text="the kubelet is started {started}, but kubeadm writes /var/lib/kubelet/config.yaml",
            remedy="omit kubeadm_patches on this node to write a drop-in",
        ),
        Message(
            id="pulls-node-kubeadm-differs",
            error=HostError,
            text="kubeadm would also change {keys} in {path}: the node's file differs from ConfigMap kubelet-config with the patches in "
            "{directory}",
            remedy="add those settings to the ConfigMap or to a patch; or, if the file is outdated, run `kubeadm upgrade node "
            "phase kubelet-config --patches {directory}` on the node and restart the kubelet; " + _AGAIN,
        ),
        Message(
            id="pulls-node-flag",
            error=HostError,
            text="{flag} on the kubelet's command line overrides any file, so {key} would have no effect",
            remedy="remove {flag} there, restart the kubelet, " + _AGAIN,
        ),
        Message(
            id="pulls-node-kubelet-failed",
            error=PeerError,
            text="the kubelet was not healthy {seconds} seconds after it started with the new settings",
            remedy="read the kubelet's log",
        ),
        Message(
            id="pulls-node-not-in-effect",
            error=PeerError,
            text="{key}: {wanted} is not in effect in {what}",
            remedy="check {where}: find what else sets {key} besides {path}, and whether {what} was restarted since",
        ),
        Message(
            id="pulls-node-not-read-back",
            error=PeerError,
            text="the kubelet's effective configuration could not be read: {why}",
            remedy=f"set kubeconfig to one that {ALLOW}; the kubelet's health was checked anyway",
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
            text="the kubelet's runtime is Docker, behind cri-dockerd at {endpoint}: neither containerd nor CRI-O pulls for it",
            remedy="omit runtime, and set max-concurrent-downloads (layers per pull; default 3) in "
            "/etc/docker/daemon.json, then reload it: systemctl reload docker",
        ),
        Message(
            id="pulls-node-cri-disabled",
            error=HostError,
            text="containerd's CRI plugin is disabled (disabled_plugins in {path}), so no kubelet pulls through it",
            remedy="name the service of the kubelet's runtime as runtime_service (the kubelet's configuration has its endpoint); "
            "if it is this containerd, remove the CRI plugin from disabled_plugins, restart containerd, " + _AGAIN,
        ),
        Message(
            id="pulls-node-import",
            error=HostError,
            text="{path}, which {main} imports, replaces the CRI plugin's whole table: before 2.0, containerd does not merge tables of imported "
            "files",
            remedy="set max_concurrent_downloads in {path} manually, or move its CRI plugin settings into {main}, restart containerd, "
            + _AGAIN,
        ),
        Message(
            id="pulls-node-runtime-version",
            error=HostError,
            text="the settings of containerd {version} are unknown",
            remedy="use containerd 1.6, 1.7 or 2, or set its limits manually",
        ),
        Message(
            id="pulls-node-runtime-key",
            error=UserError,
            text="runtime.{key} is not a setting of {runtime}{why}",
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
            text="max_concurrent_downloads = {value} in the CRI plugin's table made containerd pull without its transfer service",
            remedy="remove it from the CRI plugin's table (this module then sets the transfer service's limit), or set "
            "use_local_image_pull = true there to keep this behaviour, restart containerd, " + _AGAIN,
        ),
        Message(
            id="pulls-node-runtime-failed",
            error=PeerError,
            text="{runtime} was not healthy {seconds} seconds after it started with the new settings",
            remedy="read the log of {runtime}",
        ),
        Message(
            id="pulls-node-no-proxy",
            error=HostError,
            text="host: no pull proxy is installed on this host: {path} does not exist",
            remedy="install it first with ansible-playbook ballast.kube.image_pull_proxy, or the role of that name",
        ),
        Message(
            id="pulls-node-proxy-refused",
            error=PeerError,
            text="the pull proxy did not apply the new limits within {seconds} seconds",
            remedy="read its log, {log}, and run `ballast-pull-proxy check --config {path}`",
        ),
    ],
)
