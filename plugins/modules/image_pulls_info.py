#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_pulls_info
short_description: Report which image pull limits are in effect on a node, and where they are set
version_added: 1.0.0
description:
  - Reports which limits are in effect in the kubelet, the container runtime and the pull proxy, and which file or flag set them.
  - Kubelet files in kubeadm's form need no packages on the node. Other YAML (anchors,
    multi-line strings) needs PyYAML.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._image_pulls
  - ballast.kube._readiness
seealso:
  - module: ballast.kube.image_pulls
"""

EXAMPLES = r"""
- name: Which limits hold here
  ballast.kube.image_pulls_info:
    kubeconfig: /etc/kubernetes/kubelet-reader.conf
  register: pulls

- name: Show those of the kubelet
  ansible.builtin.debug:
    var: pulls.kubelet.settings
"""

RETURN = r"""
kubelet:
  description:
    - C(service), C(running), C(config_dir) and C(settings), which has C(value) and C(source) by key. A source is a file, a flag or C(default).
    - C(managed_by) names the distribution that runs and configures the kubelet, such as V(k3s). It is empty where there is none.
    - C(read_back) says whether the values are from C(/configz).
    - C(unread) says why part of it is not known.
  returned: success
  type: dict
  sample:
    read_back: true
    settings: {maxParallelImagePulls: {source: /etc/kubernetes/kubelet.conf.d/90-ballast-image-pulls.conf, value: 5}}
runtime:
  description:
    - C(name), C(service), C(version), C(config_path), C(table), C(scope) (what C(max_concurrent_downloads) counts), C(local_pull) (why containerd
      2.1 or newer pulls without its transfer service), C(settings) and C(unread).
  returned: success
  type: dict
  sample:
    table: io.containerd.transfer.v1.local
    settings: {max_concurrent_downloads: {source: default, value: 3}}
host:
  description: Of the pull proxy C(config_path), C(installed), C(running), C(settings) and C(unread).
  returned: success
  type: dict
  sample: {config_path: /etc/ballast/pull-proxy.json, installed: false, running: false, settings: {}, unread: ""}
readiness:
  description:
    - Measured production readiness of the feature, in the form that M(ballast.kube.readiness_info) reads - C(feature),
      C(answers) by name, each with C(verdict), C(text), C(how), C(remedy), C(figures), C(lines) and C(failure_modes), C(present), the
      failure modes that were found, and C(versions).
    - If failure modes explain an answer, its C(text) or C(remedy) may be empty. The report fills it in.
  returned: O(readiness=true)
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import INFO_SPEC


def main() -> None:
    run_info(INFO_SPEC, read_params)


if __name__ == "__main__":
    main()
