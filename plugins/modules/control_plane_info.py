#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_info
short_description: Read a control plane on this host
version_added: 0.1.0
description:
  - Says what M(ballast.kube.control_plane) made in a state directory, what of it runs, with how much memory, and when its certificates end.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
options:
  state_dir:
    description: The directory that the control plane was made with.
    type: path
    required: true
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
"""

RETURN = r"""
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
rss_bytes:
  description: Sum over the components.
  returned: success
  type: int
  sample: 484282368
certificates:
  description: Every certificate, with its end.
  returned: success
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
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import Feature, run_info
from ansible_collections.ballast.kube.plugins.module_utils._plane.engine import READER, Reading
from ansible_collections.ballast.kube.plugins.module_utils._plane.spec import READ


def main():
    run_info(Feature(name="plane", spec=READ, desired=Reading.from_params, engine=READER))


if __name__ == "__main__":
    main()
