#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane
short_description: Run a Kubernetes control plane on this host
version_added: 0.1.0
description:
  - Runs a control plane as supervised services on one address of this host. O(profile) chooses what it serves, from everything that Kubernetes
    has to what a few resources of your own need, and O(shape) whether etcd, API server and controllers are processes of their own or one.
  - A change of the options is brought about over the same data. What the new choice does not have is ended and removed first.
  - What cannot become ready is refused before anything is started, with the reason.
  - With C(--check --diff) the module shows each flag of each program with the reason for it.
  - Makes the certificates for them and for the kubelets that will join, and renews them 30 days before they end, or when a third of a
    shorter life is left. What runs with a certificate is started again when it changes.
  - An etcd of its own is spoken to with client certificates only. The API server authorizes by RBAC, with O(profile=full) by Node before it,
    and answers nothing but its health to those without credentials.
  - The services are systemd units where PID 1 is systemd, else they run under runit.
  - Before anything is changed, the module checks that the address is there, the ports are free and the programs are of the version asked for.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._control_plane
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
    default: kubernetes
  profile:
    description:
      - V(full) serves every API of Kubernetes, with its controllers and scheduler.
      - V(generic) serves what needs no pods and no nodes. That is ConfigMaps, Events, Namespaces, ResourceQuotas, Secrets and ServiceAccounts of the
        core group, and the groups admissionregistration, apiextensions, apiregistration, authentication, authorization, certificates,
        coordination, events, flowcontrol and rbac.
      - V(minimal) serves ConfigMaps, Namespaces, Secrets and ServiceAccounts of the core group, and the groups apiextensions, apiregistration,
        authentication, authorization, coordination and rbac.
      - V(hyper-mini) serves what V(generic) does, in one process.
      - The controllers are those whose resources are served.
    type: str
    choices: [full, generic, minimal, hyper-mini]
    default: full
  shape:
    description:
      - V(separate) runs each program as a process, V(all_in_one) etcd, API server and controllers as one, the program C(hyper-mini).
      - The default is V(all_in_one) for O(profile=hyper-mini), which has no other, and V(separate) for the rest. O(profile=full) is V(separate) only.
      - The shape can be changed while there is data, which both keep in the same place and form.
    type: str
    choices: [separate, all_in_one]
  crds:
    description: Whether CustomResourceDefinitions are served. V(false) needs O(shape=all_in_one), since no flag of the other programs does it.
    type: bool
    default: true
  aggregation:
    description:
      - Whether extension API servers can be reached through this API server. V(false) needs O(shape=all_in_one).
      - A list registers the APIServices in it, and runs an agent, the service C(ballast-NAME-aggregation), that leads requests to where their servers
        really listen and keeps their condition C(Available) true or false by asking them. No name has to resolve. O(profile=full) takes no list.
      - Without a list, the API server dials C(SERVICE.NAMESPACE.svc) itself, and the condition C(Available) says whether that works. V(generic) and
        V(minimal) as separate processes run the agent for this; the other API servers keep the condition themselves.
      - Each entry has C(name), such as C(v1.wardle.example.com), C(service), C(namespace),
        C(address), such as C(127.0.0.1:8443), and C(ca), the path of the certificate of the authority that signed what
        the extension API server serves with. That must be valid for C(SERVICE.NAMESPACE.svc).
      - An entry may have C(port), V(443) unless said, C(group_priority_minimum), V(1000), and C(version_priority), V(15).
    type: raw
    default: true
  aggregation_metrics:
    description:
      - Where the agent of a list of APIServices tells Prometheus what it counts, as V(ADDRESS:PORT) of loopback. Unset, it does not.
      - It takes the Python package C(prometheus_client) (Debian C(python3-prometheus-client)) for C(/usr/bin/python3).
    type: str
  resources:
    description: Native resources that are served beside those of the profile, or are not served although the profile has them.
    type: dict
    default: {}
    suboptions:
      add:
        description: Resources to add, as V(RESOURCE), V(RESOURCE.GROUP) or V(*.GROUP).
        type: list
        elements: str
        default: []
      remove:
        description: Resources to take away, in the same form. Some cannot be, and the reason is then told.
        type: list
        elements: str
        default: []
  controllers:
    description: Controllers beside those whose resources are served, or less.
    type: dict
    default: {}
    suboptions:
      add:
        description: Names, as C(kube-controller-manager --help) has them.
        type: list
        elements: str
        default: []
      remove:
        description: Names, in the same form.
        type: list
        elements: str
        default: []
  admission:
    description: Admission plugins beside those that are on for the profile, or less.
    type: dict
    default: {}
    suboptions:
      enable:
        description: Names, as C(kube-apiserver --help) has them.
        type: list
        elements: str
        default: []
      disable:
        description: Names, in the same form.
        type: list
        elements: str
        default: []
  etcd:
    description:
      - V(external) is an etcd of its own beside the API server, V(embedded) one in the same process, which needs O(shape=all_in_one).
      - V(existing) is one that is there already, of which O(etcd_endpoints) has the members. Our keys are below O(etcd_prefix) there, and stay when
        O(state=absent). Remove them with C(etcdctl del --prefix).
      - The default is V(embedded) for O(shape=all_in_one) and V(external) for the rest. These two can be changed into one another while there is data,
        V(existing) cannot be entered or left.
    type: str
    choices: [embedded, external, existing]
  etcd_endpoints:
    description: URLs of the members of an existing etcd. Required with O(etcd=existing).
    type: list
    elements: str
    default: []
  etcd_ca:
    description: Path on the host of the certificate of the authority that signed what the existing etcd serves with. Required for C(https).
    type: path
  etcd_certificate:
    description: Path on the host of the client certificate for the existing etcd.
    type: path
  etcd_key:
    description: Path on the host of the key of O(etcd_certificate).
    type: path
  etcd_prefix:
    description:
      - What the keys in the existing etcd begin with, a path.
      - The default is C(/ballast-NAME), which no other cluster has. It cannot be changed while there is data.
    type: str
  encryption:
    description:
      - What encrypts O(encryption_resources) in etcd. The module makes the key once and keeps it in C(config/encryption.json) of O(state_dir), which root
        alone reads. Keep a copy of that file with the backups of etcd, since nothing reads the data without it.
      - V(secretbox) is the better choice. With V(aesgcm) a key is safe for no more than 200000 writes.
      - Objects are encrypted when they are written. Those that are there already stay as they are until then. To write all Secrets again, run
        C(kubectl get secrets --all-namespaces -o json | kubectl replace -f -).
      - After a change, what was encrypted before stays readable, also with V(none).
    type: str
    choices: [none, secretbox, aesgcm]
    default: none
  encryption_resources:
    description: What is encrypted, as V(RESOURCE) or V(RESOURCE.GROUP).
    type: list
    elements: str
    default: [secrets]
  audit:
    description:
      - What C(audit.log) in C(log) of O(state_dir) tells of each request but those for health, in the words of C(audit.k8s.io). Bodies of Secrets, of
        requests for tokens and of TokenReviews are never told.
      - The API server rotates the log at 100 MB and keeps 5 old files for 30 days.
    type: str
    choices: [none, Metadata, Request, RequestResponse]
    default: none
  arguments:
    description:
      - Further arguments of the programs, each a name without dashes and a value. Everyone on the machine can see them.
      - One that the module sets itself is refused, and so is one that the program does not have.
    type: dict
    default: {}
    suboptions:
      api_server:
        description: Of the API server, whichever the profile has.
        type: dict
      controller_manager:
        description: Of C(kube-controller-manager).
        type: dict
      scheduler:
        description: Of C(kube-scheduler).
        type: dict
  feature_gates:
    description: Feature gates of all programs of Kubernetes in it, by name, each V(true) or V(false).
    type: dict
    default: {}
  kubernetes_version:
    description:
      - Version of the programs in O(bin_dir), V(1.34.0) or later. What they say themselves is compared with it.
      - Required unless O(state=absent). With O(state=stopped) the version that last served the data is kept.
    type: str
  bin_dir:
    description:
      - Directory that holds the programs. Those are C(etcd), C(kube-controller-manager) and C(generic-apiserver), with O(profile=full) C(kube-apiserver)
        and C(kube-scheduler) in place of the last, and with O(shape=all_in_one) C(hyper-mini) alone.
      - Services start again when it changes. Required unless O(state=absent).
    type: path
  address:
    description:
      - IP address that all services listen on, which a link of this host must have.
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
    description:
      - Network of the Services, of /12 to /28, of IPv6 of /108 to /124; V(10.96.0.0/16,fd00:96::/112) for both. It is fixed by the data.
      - The default is V(10.96.0.0/16). Only O(profile=full) has Services.
    type: str
  pod_cidr:
    description:
      - Network of the pods, or one of each IP family with a comma between. It is only checked, as what makes a node gives it its part.
      - The default is V(10.244.0.0/16). Only O(profile=full) has pods.
    type: str
  cluster_domain:
    description: DNS domain of the cluster, which is part of the issuer of tokens, and with O(profile=full) of the API server's names.
    type: str
    default: cluster.local
  extra_sans:
    description: Further names and addresses that the API server's certificate is valid for.
    type: list
    elements: str
    default: []
  nodes:
    description:
      - Kubelets that get credentials, in C(pki/nodes/NAME) of O(state_dir). To add one changes nothing else. Only O(profile=full) has nodes.
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
      service_proxy:
        description: Whether it also gets credentials for C(ballast-service-proxy). While a node does, its user has the ClusterRole C(ballast:service-proxy).
        type: bool
        default: false
  certificate_days:
    description: Life of certificates. Authorities live for 3650 days.
    type: int
    default: 365
  renew_certificates:
    description:
      - Renews all certificates in this run, those of nodes too, and starts again what runs with them. Each run with it does so.
      - Authorities stay. To replace one, remove its C(.crt) and C(.key) in C(pki) of O(state_dir) and run the module - what it signed is
        renewed with it, and whatever trusts it from elsewhere (copies of the kubeconfig, kubelets, extension API servers) needs the new
        files before anything answers it again. The key pair of ServiceAccount tokens is never renewed, since that ends every token.
    type: bool
    default: false
  members:
    description:
      - How many members the control plane has, each an etcd with its own API server, controller manager and scheduler on this host.
      - Several listen on loopback, and HAProxy has O(address). Needs O(profile=full) with O(etcd=external); fixed once there is data.
    type: int
    choices: [1, 3, 5]
    default: 1
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
  - iproute2; runit where PID 1 is not systemd; haproxy for several O(members)
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
      - {name: n1, addresses: [10.97.1.11]}
      - {name: n2, addresses: [10.97.1.12]}

- name: Run one without pods and nodes, with Secrets encrypted at rest
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/inventory
    name: inventory
    profile: generic
    kubernetes_version: 1.37.1
    bin_dir: "{{ kubernetes_binaries_bin_dir }}"
    address: 127.0.0.1
    encryption: secretbox
    audit: Metadata

- name: Run the same in one process, over the same data
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/inventory
    name: inventory
    profile: generic
    shape: all_in_one
    kubernetes_version: 1.37.1
    bin_dir: "{{ kubernetes_binaries_bin_dir }}"
    address: 127.0.0.1
    encryption: secretbox
    audit: Metadata

- name: Run one in front of an extension API server that listens on port 8443
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/flunders
    name: flunders
    profile: minimal
    resources: {add: [events, resourcequotas]}
    aggregation:
      - name: v1.wardle.example.com
        service: wardle
        namespace: default
        address: 127.0.0.1:8443
        ca: /etc/wardle/ca.crt
    kubernetes_version: 1.37.1
    bin_dir: "{{ kubernetes_binaries_bin_dir }}"
    address: 127.0.0.2

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
members:
  description: The members by number; empty where there is one.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: list
  elements: dict
  contains:
    number:
      description: Number of the member, from 1.
      type: int
    down:
      description: Its programs that do not run or do not report themselves healthy.
      type: list
      elements: str
      sample: [kube-apiserver-2]
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

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.upgrade import desired_from_params
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature


def main():
    run(Feature(name="plane", spec=MAKE, desired=desired_from_params, engine=ENGINE))


if __name__ == "__main__":
    main()
