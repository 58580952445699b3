# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The image of balloons that nobody chose: the pause image that the nodes' runtimes keep for their sandboxes. Pure.

A Node lists the names of its images in `status.images`, of the 50 largest only (kubelet's nodeStatusMaxImages): on a node with
more, its sandbox image is not seen. Anybody who runs pods can bring an image of any name to a node, so only names of the
repositories below count, and those of the repository that kube-proxy's own image is from, as in a registry of one's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ..._core.kube.objects import Object
from ..sizing.pod_requests import mapping, rows, text

DEFAULT = "registry.k8s.io/pause:3.10.1"  # where no node lists one
# Of kubeadm and Kubernetes before 1.25, k3s and RKE2, AKS, GKE, EKS, and of labs of this collection.
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

    `present` is what the DaemonSet has, "" without one: it stays where no other image is on more nodes. `kube_proxy` is the image of
    the cluster's kube-proxy, "" where it is unknown.
    """
    repositories = {*_REPOSITORIES, f"{_repository(kube_proxy).rpartition('/')[0]}/pause"}
    counted = Counter(name for node in nodes for name in _names(node) if _repository(name) in repositories)
    most = max(counted.values(), default=0)
    if present and counted[present] >= most:
        return present
    return max((name for name, count in counted.items() if count == most), key=_age, default=DEFAULT)


def image_of(daemon_set: Mapping[str, object]) -> str:
    """Of its first container; "" where it has none."""
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
    """Sorts newer versions after older ones: `pause:3.10` after `pause:3.9`."""
    return [int(number) for number in re.findall(r"\d+", name.rpartition(":")[2], re.ASCII)], name
