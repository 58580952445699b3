# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: the options that kubernetes_binaries and its reading twin share.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  version:
    description:
      - Version of Kubernetes.
      - Source V(go) supports versions with a directory in O(toolchain_dir)C(/kubernetes), source V(release) all published versions.
        Source V(path) accepts any version.
    type: str
    default: 1.37.2
  source:
    description:
      - Source of the binaries, unless O(families) or O(components) override it.
      - V(go) builds them from Go modules, pinned by a C(go.mod) and C(go.sum) in O(toolchain_dir). Kubernetes binaries report their
        version with the suffix C(+lab).
      - V(release) downloads upstream's releases and verifies them with the published SHA-256, or one in O(checksums).
      - V(path) uses a directory.
    type: str
    choices: [go, release, path]
    default: go
  path:
    description: Directory for source V(path).
    type: path
  families:
    description:
      - The families of binaries to provide. A family is built or published together.
      - With sources V(path) and V(release), families omit components that upstream does not publish, unless O(components) lists them.
    type: list
    elements: dict
    default:
      - name: kubernetes
      - name: etcd
      - name: cni
      - name: containerd
      - name: cri-tools
    suboptions:
      name:
        description: V(kubernetes), V(etcd), V(cni), V(containerd), V(cri-tools) or V(hyper-mini), which is provided only when it is listed.
        type: str
        required: true
      version:
        description: Its version. The default for V(kubernetes) is O(version), for others the matching version.
        type: str
      programs:
        description: Binaries to provide, such as only V(kubectl). The default is all except optional ones.
        type: list
        elements: str
      source:
        description: As O(source), for this family.
        type: str
        choices: [go, release, path]
      path:
        description: As O(path), for this family.
        type: path
  components:
    description: Binaries with another source than their family, and optional ones (C(kubemark)) to provide in addition.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the binary, such as V(kubelet).
        type: str
        required: true
      source:
        description: As O(source), for this binary.
        type: str
        choices: [go, release, path]
      path:
        description: As O(path), for this binary.
        type: path
  toolchain_dir:
    description: Directory of the pinned Go modules, C(files/toolchain) of the role P(ballast.kube.kubernetes_binaries#role). Needed for source V(go).
    type: path
  cache_dir:
    description:
      - Directory of the cache, on a filesystem without C(noexec).
      - Binaries of other requests remain there until O(ignore:state=absent).
    type: path
    default: /var/cache/ballast/binaries
  go:
    description: The Go command, as a name or an absolute path. By default C(go) in E(PATH), then in C(/usr/local/go/bin) and C(/usr/lib/go/bin).
    type: str
  release_urls:
    description: Mirrors by family, which replace V(https://dl.k8s.io) (V(kubernetes)) or V(https://github.com) (the others).
    type: dict
    default: {}
  checksums:
    description:
      - SHA-256 of downloads of source V(release), used instead of the published ones. The key is the component for V(kubernetes),
        otherwise the family of the archive.
    type: dict
    default: {}
"""
