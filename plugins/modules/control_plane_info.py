#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_info
short_description: Report the state of a control plane of this host
version_added: 0.1.0
description:
  - Says what M(ballast.kube.control_plane) made in a state directory, what of it runs, of which version, with which flags and why.
  - Asks the API server what it serves, the controller manager which controllers run, and etcd how it is.
  - Compares all that with what the last run of the module asked for, and tells what differs. That is no failure of this module.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._control_plane
  - ballast.kube._readiness
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

- name: Fail when it is not as it was asked for
  ansible.builtin.assert:
    that: plane.drift == [] and plane.etcd.healthy
"""

RETURN = r"""
state:
  description: V(running), V(stopped) when no process of it runs, V(degraded) when some do.
  returned: success
  type: str
profile:
  description: Its profile.
  returned: success
  type: str
  sample: generic
shape:
  description: Its shape.
  returned: success
  type: str
  sample: separate
bin_dir:
  description: Directory that holds its programs.
  returned: success
  type: str
  sample: /var/cache/ballast/binaries/sets/1f2e3d4c
kubernetes_version:
  description: What the API server says that it is, without the leading C(v). Null while it does not answer.
  returned: success
  type: str
  sample: 1.37.1+lab
endpoint:
  description: Address of the API server.
  returned: success
  type: str
  sample: https://10.97.1.1:6443
kubeconfig:
  description: The administrator's kubeconfig, complete in itself.
  returned: success
  type: str
  sample: /var/lib/ballast/lab/admin.kubeconfig
ready_seconds:
  description:
    - From the start of the API server's process until C(/readyz) said yes.
    - Measured at the last start that a run of the module waited for; null when none did.
  returned: success
  type: float
  sample: 2.41
components:
  description: The programs of the control plane.
  returned: success
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
    version:
      description: What the program that runs says that it is, without a leading C(v); null while it does not run.
      type: str
      sample: 1.37.1+lab
    log:
      description: File that it logs to.
      type: str
    flags:
      description: The flags that it was to be started with. Others that it has are in RV(drift).
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
          description: Why it is there, in one line.
          type: str
        in_effect:
          description: Whether the process that runs has it so.
          type: bool
left_out:
  description: Programs that the profile has and this control plane does without, because they could do nothing.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the program.
      type: str
      sample: kube-scheduler
    why:
      description: What it lacks.
      type: str
      sample: it places no pod without poddisruptionbudgets.policy
members:
  description: The members by number; empty where there is one.
  returned: success
  type: list
  elements: dict
  contains:
    number:
      description: Number of the member, from 1.
      type: int
      sample: 2
    down:
      description: Its programs that do not run or do not report themselves healthy.
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
      description: Its subject; null where the file holds no certificate that this collection makes.
      type: str
      sample: CN=kube-apiserver
    authority:
      description: Whether it signs others.
      type: bool
    not_after:
      description: When it ends, in UTC; null where the file holds no certificate.
      type: str
      sample: "2027-11-21T10:14:31Z"
    fault:
      description: Why the next run of M(ballast.kube.control_plane) renews it, such as its end in less than 30 days; empty when it does not.
      type: str
served:
  description: What the API server serves, custom resources and those of extension API servers included; null while it does not say.
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
    - Controllers that run, named as C(kube-controller-manager --help) has them; null while nothing answers.
    - The controller manager tells them by the checks of its health. Of C(hyper-mini) they are those that it was started with, since it ends
      with any of them.
  returned: success
  type: list
  elements: str
  sample: [garbage-collector-controller, namespace-controller]
aggregation:
  description: The agent that leads to extension API servers and keeps their availability; null where the control plane has none.
  returned: success
  type: dict
  contains:
    command:
      description: Its command; C(COMMAND status --config STATE_DIR/config/aggregation.json) shows what it does.
      type: str
      sample: /var/lib/ballast/lab/plane/lib/ballast-lab-aggregation
    log:
      description: File that it logs to.
      type: str
    pid:
      description: Its process; null while it does not run.
      type: int
    problems:
      description: What keeps it from its work, such as an API server that it does not reach.
      type: list
      elements: str
    api_services:
      description: The APIServices that are served elsewhere, as it saw them last; null while it does not answer.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the APIService.
          type: str
          sample: v1.wardle.example.com
        service:
          description: What the API server asks for.
          type: str
          sample: wardle.default.svc:443
        address:
          description: Where that listens; null where it is not in the list.
          type: str
          sample: 127.0.0.1:8443
        connections:
          description: Connections through the agent that are open.
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
          description: What the agent found, in full.
          type: str
          sample: all checks passed
etcd:
  description: The etcd that holds the data. While it does not answer there are only the first three.
  returned: success
  type: dict
  contains:
    endpoints:
      description: Its URLs.
      type: list
      elements: str
    healthy:
      description: Whether it answers, has a leader and no alarm.
      type: bool
    fault:
      description: What is wrong; empty when it is healthy.
      type: str
    version:
      description: Its version.
      type: str
      sample: 3.6.14
    size_bytes:
      description: Size of its database.
      type: int
    used_bytes:
      description: What of it holds data. The rest is given back by a defragmentation.
      type: int
    quota_bytes:
      description: Size at which it refuses writes; V(0) when it does not say.
      type: int
    revision:
      description: Revision of the data.
      type: int
    leader:
      description: Whether there is a leader.
      type: bool
    member:
      description: Name of the member that answered.
      type: str
      sample: ballast
    member_id:
      description: Its id, hexadecimal.
      type: str
    peer_urls:
      description: Where other members would reach it.
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
    - What is other than the last run of M(ballast.kube.control_plane) asked for. Run it again to mend what it makes.
    - What cannot be asked while the control plane does not answer is not in it.
  returned: success
  type: list
  elements: dict
  contains:
    about:
      description: V(resource), V(controller), V(process), V(program), V(flag), V(certificate) or V(file).
      type: str
    subject:
      description: The thing itself.
      type: str
      sample: kube-apiserver --authorization-mode
    wanted:
      description: How it should be.
      type: str
      sample: RBAC
    found:
      description: How it is.
      type: str
      sample: AlwaysAllow
readiness:
  description:
    - The measured answers to the production readiness questionnaire, as the role P(ballast.kube.readiness#role) reads them.
    - Where failure modes explain an answer, its C(text) or C(remedy) may be empty. The report of M(ballast.kube.readiness_info) fills it in.
    - Where no control plane is in O(state_dir), this alone is returned, and says so.
  returned: success and O(readiness=true)
  type: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info, with_seconds
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.read import read_params
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import INFO


def main():
    run_info(INFO, with_seconds(read_params))


if __name__ == "__main__":
    main()
