# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The default image of balloons: the pause image that the nodes' runtimes keep for their sandboxes. Pure.

A Node lists the names of only its 50 largest images in `status.images` (kubelet's nodeStatusMaxImages): on a node with more, its
sandbox image may be missing. Anybody who runs pods can bring an image of any name to a node, so only names in the repositories
below count, and those in the repository of kube-proxy's own image, which may be a private registry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ..._core.kube.objects import Object
from ..sizing.pod_requests import mapping, rows, text

DEFAULT = "registry.k8s.io/pause:3.10.1"  # when no node lists one
# Used by kubeadm and Kubernetes before 1.25, k3s and RKE2, AKS, GKE, EKS, and labs of this collection.
_REPOSITORIES = (
    "registry.k8s.io/pause",
    "k8s.gcr.io/pause",
    "docker.io/rancher/mirrored-pause",
    "mcr.microsoft.com/oss/kubernetes/pause",
    "mcr.microsoft.com/oss/v2/kubernetes/pause",
    "gke.gcr.io/pause",
    "public.ecr.aws/eks-distro/kubernetes/pause",
    "localhost/kubernetes/pause",
    "ballast.local/pause",
)
_NAME = re.compile(r"(?P<repository>[a-z0-9][a-z0-9._:/-]{0,200}):(?P<tag>\w[\w.-]{0,127})", re.ASCII)


def choose_image(nodes: Sequence[Object], present: str, kube_proxy: str) -> str:
    """The sandbox image that most of the `nodes` list; of several the newest.

    `present` is the DaemonSet's image, "" without one: it stays unless more nodes have another image. `kube_proxy` is the image of
    the cluster's kube-proxy, "" when unknown.
    """
    repositories = {*_REPOSITORIES, f"{_repository(kube_proxy).rpartition('/')[0]}/pause"}
    counted = Counter(name for node in nodes for name in _names(node) if _repository(name) in repositories)
    most = max(counted.values(), default=0)
    if present and counted[present] >= most:
        return present
    return max((name for name, count in counted.items() if count == most), key=_age, default=DEFAULT)


def image_of(daemon_set: Mapping[str, object]) -> str:
    """The image of its first container; "" when it has none."""
    spec: Object = dict(daemon_set)
    for name in ("spec", "template", "spec"):
        spec = dict(mapping(spec, name, "a DaemonSet"))
    containers = rows(spec, "containers", "a DaemonSet")
    return text(containers[0], "image", "a DaemonSet") if containers else ""


def _names(node: Object) -> set[str]:
    images = rows(mapping(node, "status", "a Node"), "images", "a Node")
    return {name for image in images for name in image.get("names") or () if isinstance(name, str)}


def _repository(name: str) -> str:
    match = _NAME.fullmatch(name)
    return match["repository"] if match else ""


def _age(name: str) -> tuple[list[int], str]:
    """A sort key that puts newer versions after older ones: `pause:3.10` after `pause:3.9`."""
    return [int(number) for number in re.findall(r"\d+", name.rpartition(":")[2], re.ASCII)], name
