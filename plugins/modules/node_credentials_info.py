#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_credentials_info
short_description: "Internal: read the keys and certificates of nodes from a control plane"
version_added: 1.0.0
author:
  - ballast.kube contributors (@ballast-kube)
description:
  - Reads, with the permissions of the task, the node credentials that M(ballast.kube.control_plane) created, so that
    M(ballast.kube.kubelet_instance) can install them on other hosts.
  - The result contains private keys, so set C(no_log) for the task.
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
options:
  pki_dir:
    description: Directory C(pki) of the control plane.
    type: path
    required: true
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
seealso:
  - module: ballast.kube.kubelet_instance
"""

EXAMPLES = r"""
- name: Read the credentials of the nodes of this host
  ballast.kube.node_credentials_info:
    pki_dir: /var/lib/ballast/lab/plane/pki
    nodes: [n1, n2]
  delegate_to: localhost
  become: true
  no_log: true
  register: credentials
"""

RETURN = r"""
ca:
  description: Certificate of the cluster's authority, PEM; empty if it does not exist yet.
  returned: success
  type: str
nodes:
  description: An entry for each node, in the form of the option O(ballast.kube.kubelet_instance#module:credentials).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
      sample: n1
    kubelet_certificate:
      description: PEM of the kubelet's client certificate; this and the following are empty if they do not exist yet.
      type: str
    kubelet_key:
      description: PEM of its key.
      type: str
    kubelet_serving_certificate:
      description: PEM of the kubelet's serving certificate.
      type: str
    kubelet_serving_key:
      description: PEM of its key.
      type: str
    kube_proxy_certificate:
      description: PEM of kube-proxy's client certificate.
      type: str
    kube_proxy_key:
      description: PEM of its key.
      type: str
    service_proxy_certificate:
      description: PEM of the client certificate of ballast-service-proxy; also empty if the node has none.
      type: str
    service_proxy_key:
      description: PEM of its key.
      type: str
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._instance.credentials import SPEC, read_credentials


def main():
    run_info(SPEC, read_credentials, secret=True, needs_root=False)


if __name__ == "__main__":
    main()
