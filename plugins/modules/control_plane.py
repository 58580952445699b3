#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane
short_description: Run a Kubernetes control plane on this host
version_added: 1.0.0
description:
  - Runs a control plane as supervised services on one address of this host. O(profile) selects the served APIs, from all of Kubernetes
    to the minimum for custom resources. O(deployment_mode) selects whether etcd, API server and controllers are separate processes or one.
  - A change of options keeps the data. Processes and files that the new options do not need are removed first.
  - Options with which a control plane cannot become ready are refused before anything starts, with the reason.
  - With C(--check --diff) the module shows each flag of each process and its reason.
  - Creates the certificates for these services and for the kubelets that will join. It renews them 30 days before they expire, or when a
    third of a shorter lifetime remains, and restarts the processes that use them.
  - The module's own etcd accepts only clients with certificates. The API server authorizes with RBAC (O(profile=full) - Node, then
    RBAC). Without credentials it serves only its health.
  - The services are systemd units if PID 1 is systemd, otherwise they run under runit.
  - Before any change, the module checks that the address exists, the ports are free and the binaries have the requested version.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._control_plane
  - ballast.kube._control_plane.jwt
  - ballast.kube._attributes.progress_log
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
      - V(present) runs the control plane, and waits until every part of it is healthy.
      - V(stopped) stops the services and keeps their data, certificates and configuration.
      - V(absent) removes everything recorded in O(state_dir), including the data. It needs no other options.
    type: str
    choices: [present, stopped, absent]
    default: present
  name:
    description: Name of the services, cgroups and the kubeconfig context, after the prefix C(ballast).
    type: str
    default: kubernetes
  profile:
    description:
      - V(full) serves every API of Kubernetes, with its controllers and scheduler.
      - V(generic) serves APIs that need no pods and no nodes. These are ConfigMaps, Events, Namespaces, ResourceQuotas, Secrets and ServiceAccounts of the
        core group, and the groups admissionregistration, apiextensions, apiregistration, authentication, authorization, certificates,
        coordination, events, flowcontrol and rbac.
      - V(minimal) serves ConfigMaps, Namespaces, Secrets and ServiceAccounts of the core group, and the groups apiextensions, apiregistration,
        authentication, authorization, coordination and rbac.
      - V(hyper-mini) serves the same APIs as V(generic), in one process.
      - Each profile runs the controllers whose resources it serves.
    type: str
    choices: [full, generic, minimal, hyper-mini]
    default: full
  deployment_mode:
    description:
      - V(separate) runs each binary as a process, V(all_in_one) runs etcd, API server and controllers as one process, the binary C(hyper-mini).
      - The default is V(all_in_one) for O(profile=hyper-mini), which supports no other, and V(separate) otherwise. O(profile=full) supports only V(separate).
      - The deployment mode can be changed later, because both keep the data in the same place and form.
    type: str
    choices: [separate, all_in_one]
    aliases: [shape]
  crds:
    description: Whether CustomResourceDefinitions are served. V(false) needs O(deployment_mode=all_in_one), because the other binaries have no flag for it.
    type: bool
    default: true
  aggregation:
    description:
      - Whether extension API servers can be reached through this API server. V(false) needs O(deployment_mode=all_in_one).
      - A list registers its APIServices, and runs an agent, the service C(ballast-NAME-aggregation). The agent forwards requests to the
        addresses of their servers, and sets the condition C(Available) by probing them. No name has to resolve. O(profile=full) does not accept a list.
      - Without a list, the API server connects to C(SERVICE.NAMESPACE.svc) itself, and the condition C(Available) reports whether this
        works. V(generic) and V(minimal) as separate processes run the agent for this; the other API servers set the condition themselves.
      - Each entry has C(name), such as C(v1.wardle.example.com), C(service), C(namespace), C(address), such as C(127.0.0.1:8443), and C(ca).
      - C(ca) is the certificate of the authority of its server, whose certificate must be valid for C(SERVICE.NAMESPACE.svc).
      - An entry can have C(port), default V(443), C(group_priority_minimum), default V(1000), and C(version_priority), default V(15).
    type: raw
    default: true
  aggregation_metrics:
    description:
      - Loopback V(ADDRESS:PORT) on which the agent of a list of APIServices serves its Prometheus metrics. When omitted, it serves none.
      - It needs the Python package C(prometheus_client) (Debian C(python3-prometheus-client)) for C(/usr/bin/python3).
    type: str
  resources:
    description: Native resources to add to those of the profile, or to remove from them.
    type: dict
    default: {}
    suboptions:
      add:
        description: Resources to add, as V(RESOURCE), V(RESOURCE.GROUP) or V(*.GROUP).
        type: list
        elements: str
        default: []
      remove:
        description: Resources to remove, in the same form. Removing a required one is an error that gives the reason.
        type: list
        elements: str
        default: []
  controllers:
    description: Controllers to add to those whose resources are served, or to remove from them.
    type: dict
    default: {}
    suboptions:
      add:
        description: Names, as C(kube-controller-manager --help) lists them.
        type: list
        elements: str
        default: []
      remove:
        description: Names, in the same form.
        type: list
        elements: str
        default: []
  admission:
    description: Admission plugins to enable in addition to those of the profile, or to disable.
    type: dict
    default: {}
    suboptions:
      enable:
        description: Names, as C(kube-apiserver --help) lists them.
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
      - V(external) runs etcd as a separate process, V(embedded) runs it in the process of the API server, which needs O(deployment_mode=all_in_one).
      - V(existing) uses an existing etcd with the members in O(etcd_endpoints). Its keys for this control plane are below O(etcd_prefix)
        and remain with O(state=absent). Remove them with C(etcdctl del --prefix).
      - The default is V(embedded) for O(deployment_mode=all_in_one) and V(external) otherwise. You can change between them, but not to or from V(existing).
    type: str
    choices: [embedded, external, existing]
  etcd_endpoints:
    description: URLs of the members of an existing etcd. Required with O(etcd=existing).
    type: list
    elements: str
    default: []
  etcd_ca:
    description: Path on the host of the certificate of the authority that signed the existing etcd's serving certificate. Required for C(https).
    type: path
  etcd_certificate:
    description: Path on the host of the client certificate for the existing etcd.
    type: path
  etcd_key:
    description: Path on the host of the key of O(etcd_certificate).
    type: path
  etcd_prefix:
    description:
      - Prefix of the keys in the existing etcd, a path.
      - The default is C(/ballast-NAME), which no other cluster uses. It cannot be changed later.
    type: str
  encryption:
    description:
      - Encryption provider for O(encryption_resources) in etcd. The module creates the key once in C(config/encryption.json) of
        O(state_dir), which only root can read. Keep a copy of that file with the backups of etcd, because the data cannot be read without it.
      - Prefer V(secretbox). With V(aesgcm) a key is safe for at most 200000 writes.
      - Objects are encrypted when they are written; existing objects remain unencrypted until then. To write all Secrets again, run
        C(kubectl get secrets --all-namespaces -o json | kubectl replace -f -).
      - Objects that were encrypted earlier remain readable after a change, also with V(none).
    type: str
    choices: [none, secretbox, aesgcm]
    default: none
  encryption_resources:
    description: Resources to encrypt, as V(RESOURCE) or V(RESOURCE.GROUP).
    type: list
    elements: str
    default: [secrets]
  audit:
    description:
      - The audit level of C(audit.k8s.io) for all requests except health checks, logged to C(log/audit.log) in O(state_dir). Bodies of
        Secrets, token requests and TokenReviews are never logged.
      - The API server rotates the log at 100 MB and keeps 5 old files for 30 days.
    type: str
    choices: [none, Metadata, Request, RequestResponse]
    default: none
  arguments:
    description:
      - Further arguments of the binaries, each a name without leading dashes and a value. All users of the machine can see them.
      - Arguments that the module sets itself, and arguments that the binary lacks, are refused.
    type: dict
    default: {}
    suboptions:
      api_server:
        description: Arguments of the API server of the profile.
        type: dict
      controller_manager:
        description: Arguments of C(kube-controller-manager).
        type: dict
      scheduler:
        description: Arguments of C(kube-scheduler).
        type: dict
  feature_gates:
    description: Feature gates of all its Kubernetes binaries, by name, each V(true) or V(false).
    type: dict
    default: {}
  kubernetes_version:
    description:
      - Version of the binaries in O(bin_dir), V(1.34.0) or later. The module compares it with the version that they report.
      - Required unless O(state=absent). O(state=stopped) keeps the version that last used the data.
    type: str
  bin_dir:
    description:
      - Directory of the binaries. These are C(etcd), C(kube-controller-manager) and C(generic-apiserver), with O(profile=full) C(kube-apiserver)
        and C(kube-scheduler) instead of the last, and with O(deployment_mode=all_in_one) only C(hyper-mini).
      - A change restarts the services. Required unless O(state=absent).
    type: path
  address:
    description:
      - IP address that all services listen on. It must be assigned to an interface of this host.
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
    description: Port of etcd for other members.
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
      - Network of the Services, /12 to /28 (IPv6 /108 to /124), or one of each IP family such as V(10.96.0.0/16,fd00:96::/112). It cannot be changed later.
      - The default is V(10.96.0.0/16). Only O(profile=full) has Services.
    type: str
  pod_cidr:
    description:
      - Network of the pods, or one of each IP family separated by a comma. The module only validates it; nodes get their pod networks
        from the module that creates them.
      - The default is V(10.244.0.0/16). Only O(profile=full) has pods.
    type: str
  cluster_domain:
    description: DNS domain of the cluster. It is part of the token issuer, and with O(profile=full) of the API server's names.
    type: str
    default: cluster.local
  extra_sans:
    description: Further names and addresses in the API server's certificate.
    type: list
    elements: str
    default: []
  nodes:
    description:
      - Kubelets that get credentials in C(pki/nodes/NAME) of O(state_dir). Adding one changes nothing else. Only O(profile=full) has nodes.
      - Credentials of nodes that are no longer listed are removed. Their Node objects are unchanged.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      addresses:
        description: Addresses in the certificate of its kubelet, in addition to its name.
        type: list
        elements: str
        default: []
      service_proxy:
        description: Whether it also gets credentials for C(ballast-service-proxy). Then their user has the ClusterRole C(ballast:service-proxy).
        type: bool
        default: false
  certificate_days:
    description: Lifetime of certificates in days. Authorities have a lifetime of 3650 days.
    type: int
    default: 365
  renew_certificates:
    description:
      - Renews all certificates in every run, including those of nodes, and restarts the processes that use them.
      - Authorities are not renewed. To replace one, remove its C(.crt) and C(.key) in C(pki) of O(state_dir) and run the module, which
        also renews the certificates that it signed. All clients that trust it (copies of the kubeconfig, kubelets, extension API
        servers) then need the new files. The key pair of ServiceAccount tokens is never renewed, because that would invalidate every token.
    type: bool
    default: false
  members:
    description:
      - Number of members of the control plane, each an etcd with its own API server, controller manager and scheduler on this host.
      - With several, members listen on loopback, and HAProxy listens on O(address). Needs O(profile=full) with O(etcd=external). It cannot be changed later.
    type: int
    choices: [1, 3, 5]
    default: 1
  etcd_fsync:
    description:
      - Whether etcd waits until its data is on disk. V(false) makes writes faster, but can lose the data when the power fails or the
        kernel crashes. A normal restart of the host loses nothing.
    type: bool
    default: true
  kubeconfig:
    description:
      - Path of the administrator's kubeconfig. It embeds the credentials, and its mode is 0600.
      - The default is C(admin.kubeconfig) in O(state_dir). The module never overwrites a file that it did not create.
    type: path
requirements:
  - The Python package C(cryptography), 38 or later, on the host
  - iproute2; runit where PID 1 is not systemd; haproxy for several O(members)
notes:
  - Only root can read key files and other files that grant access.
seealso:
  - module: ballast.kube.control_plane_info
  - module: ballast.kube.kubernetes_binaries
  - module: ballast.kube.kubelet_instance
"""

EXAMPLES = r"""
- name: Run a control plane for two kubelets, with users of an OIDC issuer
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
    jwt:
      - issuer: {url: "https://issuer.example.org", audiences: [kubernetes]}
        claimMappings: {username: {claim: sub, prefix: "oidc:"}}

- name: Run a control plane without nodes, with Secrets encrypted at rest
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/inventory
    name: inventory
    profile: generic
    kubernetes_version: 1.37.1
    bin_dir: "{{ kubernetes_binaries_bin_dir }}"
    address: 127.0.0.1
    encryption: secretbox

- name: Run the same in one process, over the same data
  ballast.kube.control_plane:
    state_dir: /var/lib/ballast/inventory
    name: inventory
    profile: generic
    deployment_mode: all_in_one
    kubernetes_version: 1.37.1
    bin_dir: "{{ kubernetes_binaries_bin_dir }}"
    address: 127.0.0.1
    encryption: secretbox

- name: Run a control plane with an extension API server on port 8443
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
  description: Version that the API server reports, without the leading C(v). Null while it does not respond.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: str
  sample: 1.37.1+lab
endpoint:
  description: Address of the API server.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: str
  sample: https://10.97.1.1:6443
kubeconfig:
  description: The administrator's kubeconfig, with embedded credentials.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: str
  sample: /var/lib/ballast/lab/admin.kubeconfig
ready_seconds:
  description: Seconds from the start of the API server's process until C(/readyz) succeeded, at the last start that a run waited for; else null.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: float
  sample: 2.41
components:
  description: The processes of the control plane.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Name of the program.
      type: str
      sample: kube-apiserver
    pid:
      description: Its process id; null while it is not running.
      type: int
    rss_bytes:
      description: Memory that it uses (C(VmRSS)).
      type: int
members:
  description: The members by number; empty when there is only one.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: list
  elements: dict
  contains:
    number:
      description: Number of the member, from 1.
      type: int
    down:
      description: Its processes that are not running or do not report themselves healthy.
      type: list
      elements: str
      sample: [kube-apiserver-2]
rss_bytes:
  description: Sum over the components.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: int
  sample: 484282368
certificates:
  description: Every certificate, with its expiry.
  returned: success and O(state=present) or O(state=stopped), not in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Path of the certificate.
      type: str
      sample: /var/lib/ballast/lab/plane/pki/apiserver.crt
    not_after:
      description: When it expires, in UTC.
      type: str
      sample: "2027-11-21T10:14:31Z"
steps:
  description: What was done, or in check mode would be done, in order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of resource.
      type: str
      sample: certificate
    verb:
      description: V(make), V(change) or V(remove).
      type: str
      sample: make
    title:
      description: The resource, in words.
      type: str
      sample: certificate /var/lib/ballast/lab/plane/pki/apiserver.crt
    target:
      description: What identifies it within its kind.
      type: str
findings:
  description: Problems found afterwards.
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
