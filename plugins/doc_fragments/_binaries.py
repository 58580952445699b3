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
      - Source V(go) has those with a directory in O(toolchain_dir)C(/kubernetes), source V(release) all that upstream published.
        Source V(path) takes whatever version lies there.
    type: str
    default: 1.37.2
  source:
    description:
      - Where programs come from, unless O(families) or O(components) say otherwise.
      - V(go) builds them from Go modules, pinned by a C(go.mod) and C(go.sum) in O(toolchain_dir). The programs of Kubernetes name
        their version with C(+lab) added.
      - V(release) downloads what upstream published and checks it against the published SHA-256, or one in O(checksums).
      - V(path) takes them from a directory.
    type: str
    choices: [go, release, path]
    default: go
  path:
    description: Directory for source V(path).
    type: path
  families:
    description:
      - The families of programs to provide. A family is built or published together.
      - Families V(path) and V(release) leave out the components that upstream does not publish, unless O(components) names them.
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
        description: V(kubernetes), V(etcd), V(cni), V(containerd), V(cri-tools) or V(hyper-mini), which is provided only when it is named.
        type: str
        required: true
      version:
        description: Its version. The default for V(kubernetes) is O(version), for others the one that goes with it.
        type: str
      programs:
        description: Those of its programs that are wanted, such as V(kubectl) alone. By default all but the optional ones.
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
    description: Single programs that come from elsewhere than their family, and optional ones (C(kubemark)) that are wanted besides.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the program, such as V(kubelet).
        type: str
        required: true
      source:
        description: As O(source), for this program.
        type: str
        choices: [go, release, path]
      path:
        description: As O(path), for this program.
        type: path
  toolchain_dir:
    description: Directory of the pinned Go modules, C(files/toolchain) of the role P(ballast.kube.kubernetes_binaries#role). Needed for source V(go).
    type: path
  cache_dir:
    description:
      - Directory of the cache, on a filesystem that programs may be run from.
      - What other requests made stays there until O(ignore:state=absent).
    type: path
    default: /var/cache/ballast/binaries
  go:
    description: The Go command, as a name or an absolute path. By default C(go) in E(PATH), then in C(/usr/local/go/bin) and C(/usr/lib/go/bin).
    type: str
  release_urls:
    description: Family to the address that stands in for V(https://dl.k8s.io) (V(kubernetes)) or V(https://github.com) (the others), for mirrors.
    type: dict
    default: {}
  checksums:
    description:
      - SHA-256 of what source V(release) downloads, so that no published one is fetched. The key is the component for programs of
        V(kubernetes), else the family, whose archive it is.
    type: dict
    default: {}
"""
