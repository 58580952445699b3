# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node's own kubelet: its credentials for the API, and which kube-proxy pods the API lists on this node.

The credentials are trusted, because only root can write them. A pod counts as kube-proxy's if, according to the API, it is
in kube-system, where only administrators may create pods, on this node, in its network, and owned by a DaemonSet.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._core.host.host import Host
from .._core.service.daemon import flag_value
from .._core.text.json_text import mapping_in, rows_in
from .._kubelet.find import Kubelet, absolute_path, list_kubelets
from .messages import MESSAGES

if TYPE_CHECKING:
    from .._core.kube.client import Api
    from .._core.kube.kubeconfig import Credentials

KUBECONFIG = "/etc/kubernetes/kubelet.conf"  # as set up by kubeadm
NAMESPACE = "kube-system"
MIRROR = "kubernetes.io/config.mirror"  # annotation of mirror pods, by which the API shows static pods


def api(host: Host) -> Api:
    """A client with the kubelet's credentials, which may read the pods of this node and set labels of its Node."""
    from .._core.kube.client import Api  # a run that changes nothing needs no API
    from .patient_access import PatientAccess

    return Api(host, PatientAccess(credentials_of(host)))


def credentials_of(host: Host) -> Credentials:
    """The credentials in the kubeconfig of this node's kubelet. `migrate-no-kubelet` if there is no such file."""
    from .._core.kube.kubeconfig import parse_credentials

    path = _kubeconfig(host, _find_kubelet(host))
    data = host.read(path)
    if data is None:
        raise MESSAGES.error("migrate-no-kubelet", path=path)
    return parse_credentials(data.decode(errors="replace"), base_dir=os.path.dirname(path), name=path)


def proxy_pods(host: Host, node_name: str) -> frozenset[str]:
    """The uids of `list_proxy_pods`."""
    uids = (mapping_in(pod, "metadata").get("uid") for pod in list_proxy_pods(host, node_name))
    return frozenset(uid for uid in uids if isinstance(uid, str) and uid)


def list_proxy_pods(host: Host, node_name: str) -> list[Mapping[str, Any]]:
    """The pods that may run kube-proxy on this node: those of DaemonSets, in its network. `node_name` "" means the
    kubelet's."""
    return [pod for pod in _list_pods(host, node_name) if _is_of_daemonset(pod)]


def list_mirror_pods(host: Host, node_name: str) -> list[Mapping[str, Any]]:
    """The mirror pods of this node, which show its static pods."""
    pods = _list_pods(host, node_name)
    return [pod for pod in pods if MIRROR in mapping_in(pod, "metadata", "annotations")]


def read_node(host: Host, node_name: str) -> Mapping[str, Any]:
    """This node's Node object."""
    return api(host).get(f"/api/v1/nodes/{_node_name(host, node_name)}")


def _list_pods(host: Host, node_name: str) -> list[Mapping[str, Any]]:
    node = _node_name(host, node_name)
    listed = api(host).list(f"/api/v1/namespaces/{NAMESPACE}/pods", {"fieldSelector": f"spec.nodeName={node}"})
    return [pod for pod in listed.items if mapping_in(pod, "spec").get("nodeName") == node]


def _node_name(host: Host, node_name: str) -> str:
    running = _find_kubelet(host)
    flag = None if running is None else flag_value(running.argv, "--hostname-override")
    return node_name or (flag or platform.node()).strip().lower()


def _is_of_daemonset(pod: Mapping[str, Any]) -> bool:
    owners = rows_in(mapping_in(pod, "metadata"), "ownerReferences")
    is_of_set = any(owner.get("kind") == "DaemonSet" and owner.get("controller") is True for owner in owners)
    return mapping_in(pod, "spec").get("hostNetwork") is True and is_of_set


def _find_kubelet(host: Host) -> Optional[Kubelet]:
    """This node's kubelet; None if none is running."""
    kubelets = list_kubelets(host)
    paths = {_kubeconfig(host, kubelet) for kubelet in kubelets}
    if len(paths) > 1:
        raise MESSAGES.error("migrate-kubelets", found=", ".join(sorted(paths)))
    return kubelets[0] if kubelets else None


def _kubeconfig(host: Host, running: Optional[Kubelet]) -> str:
    path = None if running is None else flag_value(running.argv, "--kubeconfig")
    return KUBECONFIG if running is None or not path else absolute_path(host, running, path)
