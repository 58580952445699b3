#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane
short_description: A Kubernetes control plane on this host
version_added: 0.1.0
description:
  - Runs etcd, C(kube-apiserver), C(kube-controller-manager) and C(kube-scheduler) as supervised services on one address of this host.
  - Makes the certificates for them and for the kubelets that will join, and makes them anew 30 days before they end, or when a third of a
    shorter life is left. What runs with a certificate is started again when it changes.
  - etcd is spoken to with client certificates only. The API server authorizes by Node and RBAC, and answers nothing but its health to
    those without credentials.
  - The services are systemd units where PID 1 is systemd, else they run under runit.
  - Before anything is changed, the module checks that the address is there, the ports are free and the programs are of the version asked for.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.events
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) runs the control plane, and waits until every part of it is well.
      - V(stopped) ends the services and keeps their data, certificates and configuration.
      - V(absent) removes all that is recorded in O(state_dir), the data included. The other options are then not needed.
    type: str
    choices: [present, stopped, absent]
    default: present
  name:
    description: Name that services, cgroups and the context in the kubeconfig bear, after C(ballast).
    type: str
    default: lab
  profile:
    description: V(full) serves every API of Kubernetes, with its controllers and scheduler.
    type: str
    choices: [full]
    default: full
  kubernetes_version:
    description:
      - Version of the programs in O(bin_dir), V(1.34.0) or later. What they say themselves is compared with it.
      - Required unless O(state=absent).
    type: str
  bin_dir:
    description:
      - Directory that holds C(etcd), C(kube-apiserver), C(kube-controller-manager) and C(kube-scheduler).
      - Services start again when it changes. Required unless O(state=absent).
    type: path
  address:
    description:
      - IPv4 address that all services listen on, which a link of this host must have.
      - Required unless O(state=absent).
    type: str
  secure_port:
    description: Port of the API server.
    type: int
    default: 6443
  etcd_client_port:
    description: Port of etcd for the API server.
    type: int
    default: 2379
  etcd_peer_port:
    description: Port of etcd for other members, of which there are none.
    type: int
    default: 2380
  controller_manager_port:
    description: Port on which the controller manager serves its health and metrics.
    type: int
    default: 10257
  scheduler_port:
    description: Port on which the scheduler serves its health and metrics.
    type: int
    default: 10259
  service_cidr:
    description: Network of the Services, with a prefix length from 12 to 28. It cannot be changed while there is data.
    type: str
    default: 10.96.0.0/16
  pod_cidr:
    description:
      - Network of the pods. It is checked against the others and goes nowhere else, since whoever makes a node gives it its part.
    type: str
    default: 10.244.0.0/16
  cluster_domain:
    description: DNS domain of the cluster, which is part of the API server's names and of the issuer of tokens.
    type: str
    default: cluster.local
  extra_sans:
    description: Further names and addresses that the API server's certificate is valid for.
    type: list
    elements: str
    default: []
  nodes:
    description:
      - Kubelets that get credentials, in C(pki/nodes/NAME) of O(state_dir). To add one changes nothing else.
      - The credentials of one that is no longer named are removed. Its Node object is not touched.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      addresses:
        description: Addresses that the certificate of its kubelet is valid for, beside its name.
        type: list
        elements: str
        default: []
  certificate_days:
    description: Life of certificates. Authorities live for 3650 days.
    type: int
    default: 365
  etcd_fsync:
    description:
      - Whether etcd waits until its data is on the disk. V(false) makes writes faster, and may lose the data when the power fails or the
        kernel crashes. An orderly restart of the host loses nothing.
    type: bool
    default: true
  kubeconfig:
    description:
      - Where the administrator's kubeconfig is written. It holds the credentials themselves and its mode is 0600.
      - The default is C(admin.kubeconfig) in O(state_dir). A file of somebody else is never overwritten.
    type: path
requirements:
  - The Python package C(cryptography), 38 or later, on the host
  - iproute2; runit where PID 1 is not systemd
notes:
  - Key files and everything else that grants access can be read by root alone.
seealso:
  - module: ballast.kube.control_plane_info
  - module: ballast.kube.kubernetes_binaries
  - module: ballast.kube.kubelet_instance
"""

EXAMPLES = r"""
- name: Run a control plane that two kubelets will join
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/lab/plane
    name: lab
    kubernetes_version: 1.37.1
    bin_dir: "{{ kubernetes_binaries_bin_dir }}"
    address: 10.97.1.1
    kubeconfig: /var/lib/ballast/lab/admin.kubeconfig
    nodes:
      - name: n1
        addresses: [10.97.1.11]
      - name: n2
        addresses: [10.97.1.12]

- name: Remove it with its data
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/lab/plane
    state: absent
"""

RETURN = r"""
kubernetes_version:
  description: What the API server says that it is, without the leading C(v). Null while it does not answer.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: str
  sample: 1.37.1+lab
endpoint:
  description: Address of the API server.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: str
  sample: https://10.97.1.1:6443
kubeconfig:
  description: The administrator's kubeconfig, complete in itself.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: str
  sample: /var/lib/ballast/lab/admin.kubeconfig
ready_seconds:
  description:
    - From the start of the API server's process until C(/readyz) said yes.
    - Measured at the last start that a run of the module waited for; null when none did.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: float
  sample: 2.41
components:
  description: The programs of the control plane.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Name of the program.
      type: str
      sample: kube-apiserver
    pid:
      description: Its process; null while it does not run.
      type: int
    rss_bytes:
      description: Memory that it has in use (C(VmRSS)).
      type: int
rss_bytes:
  description: Sum over the components.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: int
  sample: 484282368
certificates:
  description: Every certificate, with its end.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Path of the certificate.
      type: str
      sample: /var/lib/ballast/lab/plane/pki/apiserver.crt
    not_after:
      description: When it ends, in UTC.
      type: str
      sample: "2027-11-21T10:14:31Z"
steps:
  description: What was done, or in check mode would be done, in order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of thing.
      type: str
      sample: certificate
    verb:
      description: V(make), V(change) or V(remove).
      type: str
      sample: make
    title:
      description: The thing, in words.
      type: str
      sample: certificate /var/lib/ballast/lab/plane/pki/apiserver.crt
    target:
      description: What identifies it within its kind.
      type: str
findings:
  description: What was found wrong afterwards.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import Feature, run
from ansible_collections.ballast.kube.plugins.module_utils._plane.desired import ControlPlane
from ansible_collections.ballast.kube.plugins.module_utils._plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._plane.spec import MAKE


def main():
    run(Feature(name="plane", spec=MAKE, desired=ControlPlane.from_params, engine=ENGINE))


if __name__ == "__main__":
    main()
