#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_info
short_description: Report the state of a control plane of this host
version_added: 1.0.0
description:
  - Reports what M(ballast.kube.control_plane) created in a state directory, which processes run, their versions, and their flags with reasons.
  - Queries the API server for its resources, the controller manager for its controllers, and etcd for its health.
  - Compares the result with the options of the last run, and reports differences. A difference does not make this module fail.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._control_plane
  - ballast.kube._readiness
options:
  state_dir:
    description:
      - Directory of the control plane, as of M(ballast.kube.control_plane).
      - The default with O(plane_dir) is C(plane) in that directory. One of both is required.
    type: path
    required: false
  plane_dir:
    description:
      - Directory of a control plane that the playbook C(ballast.kube.control_plane) created. RV(plane) is its record.
      - A directory without a record is an error.
    type: path
requirements:
  - The Python package C(cryptography), 38 or later, on the host
seealso:
  - module: ballast.kube.control_plane
"""

EXAMPLES = r"""
- name: Read the control plane of the lab
  ballast.kube.control_plane_info:
    state_dir: /var/lib/ballast/lab/plane
  register: plane

- name: Read a control plane of the playbook ballast.kube.control_plane, with its record
  ballast.kube.control_plane_info:
    plane_dir: /var/lib/ballast/planes/tests
  register: tests

- name: Fail when it differs from its options
  ansible.builtin.assert:
    that: plane.drift == [] and plane.etcd.healthy
"""

RETURN = r"""
state:
  description: V(running), V(stopped) when none of its processes runs, V(degraded) when only some run.
  returned: success
  type: str
profile:
  description: Its profile.
  returned: success
  type: str
  sample: generic
deployment_mode:
  description: Its deployment mode.
  returned: success
  type: str
  sample: separate
bin_dir:
  description: Directory of its binaries.
  returned: success
  type: str
  sample: /var/cache/ballast/binaries/sets/1f2e3d4c
kubernetes_version:
  description: Version that the API server reports, without the leading C(v). Null while it does not respond.
  returned: success
  type: str
  sample: 1.37.1+lab
endpoint:
  description: Address of the API server.
  returned: success
  type: str
  sample: https://10.97.1.1:6443
kubeconfig:
  description: The administrator's kubeconfig, with embedded credentials.
  returned: success
  type: str
  sample: /var/lib/ballast/lab/admin.kubeconfig
ready_seconds:
  description:
    - Seconds from the start of the API server's process until C(/readyz) succeeded.
    - Measured at the last start that a run of the module waited for; null if no run did.
  returned: success
  type: float
  sample: 2.41
components:
  description: The processes of the control plane.
  returned: success
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
    version:
      description: Version that the running process reports, without a leading C(v); null while it is not running.
      type: str
      sample: 1.37.1+lab
    log:
      description: Its log file.
      type: str
    flags:
      description: Its expected flags. Other flags of the process are in RV(drift).
      type: list
      elements: dict
      contains:
        name:
          description: Name of the flag.
          type: str
          sample: authorization-mode
        value:
          description: Its value.
          type: str
          sample: RBAC
        why:
          description: Its reason, in one line.
          type: str
        in_effect:
          description: Whether the running process has this flag with this value.
          type: bool
left_out:
  description: Processes of the profile that this control plane omits because they would have nothing to do.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the program.
      type: str
      sample: kube-scheduler
    why:
      description: What it would need.
      type: str
      sample: it places no pod without poddisruptionbudgets.policy
members:
  description: The members by number; empty when there is only one.
  returned: success
  type: list
  elements: dict
  contains:
    number:
      description: Number of the member, from 1.
      type: int
      sample: 2
    down:
      description: Its processes that are not running or do not report themselves healthy.
      type: list
      elements: str
      sample: [kube-apiserver-2]
rss_bytes:
  description: Sum over the components.
  returned: success
  type: int
  sample: 484282368
certificates:
  description: Every certificate that the control plane made.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Path of the certificate.
      type: str
      sample: /var/lib/ballast/lab/plane/pki/apiserver.crt
    subject:
      description: Its subject; null when the file contains no certificate of this collection.
      type: str
      sample: CN=kube-apiserver
    authority:
      description: Whether it is an authority.
      type: bool
    not_after:
      description: When it expires, in UTC; null when the file contains no certificate.
      type: str
      sample: "2027-11-21T10:14:31Z"
    fault:
      description: Why the next run of M(ballast.kube.control_plane) renews it, such as expiry in less than 30 days; empty when it does not.
      type: str
served:
  description: Resources that the API server serves, including custom resources and those of extension API servers; null while it does not respond.
  returned: success
  type: list
  elements: dict
  contains:
    group:
      description: API group, empty for the core group.
      type: str
      sample: coordination.k8s.io
    version:
      description: Version of the group.
      type: str
      sample: v1
    resources:
      description: Its resources and subresources.
      type: list
      elements: str
      sample: [leases]
controllers:
  description:
    - Running controllers, named as in C(kube-controller-manager --help); null while the controller manager does not respond.
    - They are read from the controller manager's health checks. For C(hyper-mini) they are those that it was started with, because it
      ends when any of them ends.
  returned: success
  type: list
  elements: str
  sample: [garbage-collector-controller, namespace-controller]
aggregation:
  description: The agent that forwards to extension API servers and maintains their availability; null when the control plane has none.
  returned: success
  type: dict
  contains:
    command:
      description: Its command; C(COMMAND status --config STATE_DIR/config/aggregation.json) shows what it does.
      type: str
      sample: /var/lib/ballast/lab/plane/lib/ballast-lab-aggregation
    log:
      description: Its log file.
      type: str
    pid:
      description: Its process id; null while it is not running.
      type: int
    problems:
      description: Its problems, such as an API server that it cannot reach.
      type: list
      elements: str
    api_services:
      description: APIServices of extension API servers, as the agent last saw them; null while it does not respond.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the APIService.
          type: str
          sample: v1.wardle.example.com
        service:
          description: Service and port that the API server connects to.
          type: str
          sample: wardle.default.svc:443
        address:
          description: Address of the extension API server; null when it is not in the list.
          type: str
          sample: 127.0.0.1:8443
        connections:
          description: Number of open connections through the agent.
          type: int
        status:
          description: The condition C(Available).
          type: str
          sample: "True"
        reason:
          description: Its reason.
          type: str
          sample: Passed
        message:
          description: The condition's message.
          type: str
          sample: all checks passed
etcd:
  description: The etcd with the data. While it does not respond, only the first three are present.
  returned: success
  type: dict
  contains:
    endpoints:
      description: Its URLs.
      type: list
      elements: str
    healthy:
      description: Whether it responds, has a leader and no alarm.
      type: bool
    fault:
      description: Its problem; empty when it is healthy.
      type: str
    version:
      description: Its version.
      type: str
      sample: 3.6.14
    size_bytes:
      description: Size of its database.
      type: int
    used_bytes:
      description: Bytes of the database that are in use. Defragmentation frees the rest.
      type: int
    quota_bytes:
      description: Size at which it refuses writes; V(0) when it does not report it.
      type: int
    revision:
      description: Revision of the data.
      type: int
    leader:
      description: Whether there is a leader.
      type: bool
    member:
      description: Name of the member that responded.
      type: str
      sample: ballast
    member_id:
      description: Its id, hexadecimal.
      type: str
    peer_urls:
      description: URLs for its other members.
      type: list
      elements: str
    alarms:
      description: Alarms, such as V(NOSPACE) and V(CORRUPT).
      type: list
      elements: str
    keys:
      description: Number of keys at this revision.
      type: int
drift:
  description:
    - Differences from the options of the last run of M(ballast.kube.control_plane). Run it again to fix them.
    - It excludes everything that cannot be read while the control plane does not respond.
  returned: success
  type: list
  elements: dict
  contains:
    about:
      description: V(resource), V(controller), V(process), V(program), V(flag), V(certificate) or V(file).
      type: str
    subject:
      description: The resource.
      type: str
      sample: kube-apiserver --authorization-mode
    wanted:
      description: Expected value.
      type: str
      sample: RBAC
    found:
      description: Actual value.
      type: str
      sample: AlwaysAllow
plane:
  description: The record of its name, version, address, ports and options, as M(ballast.kube.control_plane_record) returns it.
  returned: success and O(plane_dir) is given
  type: dict
readiness:
  description:
    - The measured part of the production readiness report, as the role P(ballast.kube.readiness#role) reads it.
    - Where failure modes explain an answer, its C(text) or C(remedy) may be empty. The report of M(ballast.kube.readiness_info) fills it in.
    - When O(state_dir) contains no control plane, only this is returned, and reports so.
  returned: success and O(readiness=true)
  type: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info, with_seconds
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.read import read_params
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import INFO, INFO_ONE_OF


def main():
    run_info(INFO, with_seconds(read_params), one_of=INFO_ONE_OF)


if __name__ == "__main__":
    main()
