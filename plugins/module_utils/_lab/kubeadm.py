# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of a lab with `bootstrap: kubeadm`: images by the names that kubeadm uses, and the files of each machine. Pure.

A machine is set up as kubeadm's installation guide says: containerd and kubelet as systemd units, kubeadm's drop-in for the kubelet,
CNI plugins in /opt/cni/bin. The plugin `ptp` connects the pods of a node, and routes of the host connect the nodes, as in every lab.
That needs no further program and no pod before the first pod, and kube-proxy's rules see both directions of each packet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

from .._binaries.families import FAMILIES
from .._core.engine.kinds import digest
from .resolve import MACHINE_BIN_DIR, Lab
from .resolve import MACHINE_STATE_DIR as STATE_DIR

REPOSITORY = "ballast.local"
IMAGES_DIR = "/opt/ballast/images"
UPGRADE_BIN_DIR = "/opt/ballast/upgrade/bin"
UPGRADE_IMAGES_DIR = "/opt/ballast/upgrade/images"
SCRIPT = "/usr/local/sbin/ballast-kubeadm"
UPGRADES = "/usr/local/bin/kubeadm"
CONFIG = "/etc/kubernetes-lab/kubeadm.yaml"
PATCHES = "/etc/kubernetes-lab/patches"
SOCKET = "unix:///run/containerd/containerd.sock"
_API = "kubeadm.k8s.io/v1beta4"
# The image name of pause in kubeadm, a constant of its releases 1.36 and 1.37.
_PAUSE = f"{REPOSITORY}/pause:3.10.2"
# Some minutes longer than kubeadm's defaults, as other work shares the processors of a machine that builds and tests.
_TIMEOUTS = dict.fromkeys(
    ("controlPlaneComponentHealthCheck", "etcdAPICall", "kubeletHealthCheck", "kubernetesAPICall", "tlsBootstrap"),
    "10m0s",
)
_LEADERS = ("controllerManager", "scheduler")
_CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
# A virtual machine of User Mode Linux has one processor, and a kernel without cpusets.
_IGNORED = ("NumCPU", "SystemVerification")


def kubeadm_parts(lab: Lab) -> dict[str, Any]:
    """What the playbooks need for kubeadm.

    `images`: for each archive, the preset and full name of each image. `families`: of binaries, besides those of every lab. `upgrade`:
    null, or the version that kubeadm can upgrade to, its `images`, and the paths of these and its binaries on the machines.
    `first`: the control plane's machine. `script`: the path of the script that runs kubeadm on a machine. `machines`: by name, the
    text of `script`, and `prepared`, the file that says that the script has prepared the machine.
    """
    first = lab["nodes"][0]["name"]
    scripts = {node["name"]: _script(lab, node, is_first=node["name"] == first) for node in lab["nodes"]}
    return {
        "images": _images(lab),
        "upgrade": _upgrade(lab),
        "families": [{"name": name} for name in ("kubeadm", "coredns")],
        "first": first,
        "script": SCRIPT,
        "machines": {
            name: {"script": text, "prepared": f"{STATE_DIR}/prepared-{digest(text)}"} for name, text in scripts.items()
        },
    }


def _images(lab: Lab) -> dict[str, dict[str, str]]:
    return {"control-plane": _control_plane_images(lab), "nodes": _node_images(lab)}


def _upgrade(lab: Lab) -> Optional[dict[str, Any]]:
    version = lab.get("upgrade_to")
    if not version:
        return None
    later = {**lab, "kubernetes_version": version}
    places = {"bin_dir": UPGRADE_BIN_DIR, "images_dir": UPGRADE_IMAGES_DIR}
    return {"version": version, "images": _images(later), **places}


def _etcd_version(lab: Lab) -> str:
    return FAMILIES["etcd"].version_with(lab["kubernetes_version"])


def _coredns_version(lab: Lab) -> str:
    return f"v{FAMILIES['coredns'].version_with(lab['kubernetes_version'])}"


def _control_plane_images(lab: Lab) -> dict[str, str]:
    names = {preset: f"{REPOSITORY}/{preset}:v{lab['kubernetes_version']}" for preset in _CONTROL_PLANE}
    return {**names, "etcd": f"{REPOSITORY}/etcd:{_etcd_version(lab)}"}


def _node_images(lab: Lab) -> dict[str, str]:
    """The images of a node, and busybox, which the lab's check runs under its own name."""
    return {
        "kube-proxy": f"{REPOSITORY}/kube-proxy:v{lab['kubernetes_version']}",
        "coredns": f"{REPOSITORY}/coredns:{_coredns_version(lab)}",
        "pause": _PAUSE,
        "busybox": f"{REPOSITORY}/busybox:1",
    }


def machine_files(lab: Lab, node: Mapping[str, Any]) -> dict[str, str]:
    """The text of each file that a node has before kubeadm runs, by path."""
    texts = {
        "/etc/modules-load.d/kubernetes.conf": "overlay\nip_vs\nip_vs_rr\nip_vs_wrr\nip_vs_sh\nnf_conntrack\n",
        "/etc/sysctl.d/kubernetes.conf": "net.ipv4.ip_forward = 1\n",
        # CoreDNS forwards to this resolver. The host answers no queries, so names outside the cluster do not resolve.
        "/etc/resolv.conf": f"nameserver {lab['gateway'].partition('/')[0]}\n",
        "/etc/crictl.yaml": f"runtime-endpoint: {SOCKET}\n",
        "/etc/containerd/config.toml": _CONTAINERD_CONFIG,
        "/etc/systemd/system/containerd.service": _CONTAINERD_UNIT,
        "/etc/systemd/system/kubelet.service": _KUBELET_UNIT,
        "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": _KUBELET_DROP_IN,
        "/etc/cni/net.d/10-ballast.conflist": _cni(lab, node),
        UPGRADES: _UPGRADES,
    }
    if node["name"] == lab["nodes"][0]["name"]:
        texts[CONFIG] = _config(lab, node)
        texts.update({f"{PATCHES}/{name}+strategic.json": _patient(name) for name in ("etcd", *_CONTROL_PLANE)})
    return texts


def _patient(name: str) -> str:
    """A patch of a static pod: late answers on a busy machine must not end the control plane."""
    probe = {"timeoutSeconds": 60, "failureThreshold": 30}
    return json.dumps({"spec": {"containers": [{"name": name, "livenessProbe": probe, "startupProbe": probe}]}}) + "\n"


def _script(lab: Lab, node: Mapping[str, Any], *, is_first: bool) -> str:
    """One script for everything that a machine needs, as Ansible takes two seconds to write each file there."""
    archives = [*(["control-plane"] if is_first else []), "nodes"]
    return _SCRIPT.format(
        log=f"{STATE_DIR}/nodes/{node['name']}/log",
        state=STATE_DIR,
        bin_dir=MACHINE_BIN_DIR,
        files="".join(f"put {path} <<'{_END}'\n{text}{_END}\n" for path, text in machine_files(lab, node).items()),
        images=" ".join(f"{IMAGES_DIR}/{name}.tar" for name in archives),
        upgrade_images=" ".join(f"{UPGRADE_IMAGES_DIR}/{name}.tar" for name in archives),
        upgrade_bin_dir=UPGRADE_BIN_DIR,
        config=CONFIG,
        upgrades=UPGRADES,
        socket=SOCKET,
        name=node["name"],
        ignored=",".join(_IGNORED),
    )


def _config(lab: Lab, node: Mapping[str, Any]) -> str:
    """kubeadm's configuration as JSON documents, which are YAML."""
    version = f"v{lab['kubernetes_version']}"
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": _API,
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": node["address"], "bindPort": lab["control_plane"]["port"]},
            "nodeRegistration": {
                "name": node["name"],
                "criSocket": SOCKET,
                "ignorePreflightErrors": list(_IGNORED),
            },
            "timeouts": _TIMEOUTS,
            "patches": {"directory": PATCHES},
        },
        {
            "apiVersion": _API,
            "kind": "ClusterConfiguration",
            "clusterName": lab["name"],
            "kubernetesVersion": version,
            "imageRepository": REPOSITORY,
            "networking": {"podSubnet": lab["pod_cidr"], "serviceSubnet": lab["service_cidr"]},
            # Single instances on a busy processor: they would exit when they cannot renew a lease in time.
            **{name: {"extraArgs": [{"name": "leader-elect", "value": "false"}]} for name in _LEADERS},
            # The versions that the lab builds, not kubeadm's defaults.
            "dns": {"imageTag": _coredns_version(lab)},
            "etcd": {
                "local": {
                    "imageTag": _etcd_version(lab),
                    "extraArgs": [{"name": "unsafe-no-fsync", "value": "true"}],
                }
            },
        },
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": node["proxy_backend"],
        },
        {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd"},
    ]
    return "---\n".join(json.dumps(document, indent=2) + "\n" for document in documents)


def _cni(lab: Lab, node: Mapping[str, Any]) -> str:
    ptp = {
        "type": "ptp",
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": node["pod_cidr"]}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [ptp, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "1.0.0", "name": lab["name"], "plugins": plugins}, indent=2) + "\n"


# Comes before /usr/bin in PATH. The job that begins an upgrade runs the image pause and expects its version, which catatonit does
# not print. `kubeadm upgrade` forgets the patches that `kubeadm init` got.
_UPGRADES = """#!/bin/sh
# kubeadm of the lab: an upgrade passes over checks that this lab cannot pass, and keeps the lab's patches.
case "${{1-}} ${{2-}} ${{3-}}" in
  "upgrade node phase") ;;
  "upgrade apply "* | "upgrade node "*)
    case " $* " in
      *" --patches"*) ;;
      *) [ ! -d {patches} ] || set -- "$@" --patches={patches} ;;
    esac
    set -- "$@" --ignore-preflight-errors={ignored}
    ;;
esac
exec /usr/bin/kubeadm "$@"
""".format(ignored=",".join((*_IGNORED, "CreateJob")), patches=PATCHES)

_END = "END-OF-FILE"
_SCRIPT = """#!/bin/sh
# Runs kubeadm for the lab: ballast-kubeadm prepare FILE | init | join SERVER OPTIONS, as the control plane says how to join.
# What an interrupted run began is reset first. FILE and {state}/node say what is done.
# ballast-kubeadm install PROGRAM... takes kubeadm, kubelet or kubectl of the version to upgrade to, as a package manager would.
set -eu
logged() {{
  "$@" >>{log}/kubeadm.log 2>&1 || {{ tail -n 40 {log}/kubeadm.log >&2; exit 1; }}
}}
put() {{
  mkdir -p "${{1%/*}}"
  cat >"$1"
}}
files() {{
{files}}}
mkdir -p {log}
case $1 in
  prepare)
    files
    mkdir -p /opt/cni
    ln -sfT {bin_dir} /opt/cni/bin
    chmod 0755 {upgrades}
    for program in crictl ctr kubeadm kubectl kubelet; do ln -sf {bin_dir}/$program /usr/bin/$program; done
    logged systemctl restart systemd-modules-load systemd-sysctl
    systemctl daemon-reload
    systemctl enable --quiet --now containerd
    systemctl enable --quiet kubelet
    for archive in {images}; do logged ctr --namespace k8s.io images import --local $archive; done
    touch "$2"
    ;;
  init | join)
    [ ! -e /etc/kubernetes/manifests ] || logged kubeadm reset --force --cri-socket={socket}
    if [ $1 = init ]; then
      logged kubeadm init --config={config} --skip-token-print
    else
      shift
      logged kubeadm join "$@" --node-name={name} --cri-socket={socket} --ignore-preflight-errors={ignored}
    fi
    touch {state}/node
    ;;
  install)
    shift
    for program; do
      [ -x {upgrade_bin_dir}/$program ] || {{ echo "no $program to upgrade to: the lab's topology has no upgrade_to" >&2; exit 1; }}
      ln -sf {upgrade_bin_dir}/$program /usr/bin/$program
      [ $program != kubeadm ] || for archive in {upgrade_images}; do logged ctr --namespace k8s.io images import --local $archive; done
    done
    ;;
esac
"""

_CONTAINERD_CONFIG = f"""version = 3

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{_PAUSE}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
"""

_CONTAINERD_UNIT = f"""[Unit]
Description=containerd
After=network.target

[Service]
Type=notify
ExecStart={MACHINE_BIN_DIR}/containerd
Environment=PATH={MACHINE_BIN_DIR}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"""

_KUBELET_UNIT = """[Unit]
Description=kubelet
After=containerd.service

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
RestartSec=2
StartLimitIntervalSec=0

[Install]
WantedBy=multi-user.target
"""

# Variables, files and flags as kubeadm's page about the kubelet names them.
_KUBELET_DROP_IN = """[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"""
