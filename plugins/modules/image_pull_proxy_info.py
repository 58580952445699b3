#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_pull_proxy_info
short_description: Report the pull proxy of a host
version_added: 1.0.0
description:
  - Reports whether the pull proxy of this host runs, and which pulls are in flight and queued.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._image_pull_proxy
  - ballast.kube._readiness
seealso:
  - module: ballast.kube.image_pull_proxy
"""

EXAMPLES = r"""
- name: Look at the pulls of this host
  ballast.kube.image_pull_proxy_info:
  register: pulls

- name: Show them
  ansible.builtin.debug:
    var: pulls.status
"""

RETURN = r"""
command:
  description: Path of the command.
  returned: success
  type: str
  sample: /usr/local/bin/ballast-pull-proxy
config_path:
  description: Path of its settings.
  returned: success
  type: str
  sample: /etc/ballast/pull-proxy.json
log:
  description: Path of its log.
  returned: success
  type: str
  sample: /var/log/ballast-pull-proxy/pull-proxy.log
pid:
  description: Process of the proxy; null where none runs.
  returned: success
  type: int
missing_packages:
  description: Packages that the proxy needs and this host lacks, by the names of its own distribution.
  returned: success
  type: list
  elements: str
  sample: [python3-grpcio]
options:
  description:
    - The settings of the proxy that is installed, as the options of M(ballast.kube.image_pull_proxy) that make its file; null where there is none,
      or if the file was edited manually.
  returned: success
  type: dict
  sample: {listeners: [{name: n1, socket: /run/ballast-pull-proxy/n1.sock, runtime: /run/n1/containerd.sock}], max_in_flight: 3}
status:
  description: Output of C(ballast-pull-proxy status --json); null if the proxy does not respond.
  returned: success
  type: dict
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
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.request import INFO_SPEC


def main() -> None:
    run_info(INFO_SPEC, read_params)


if __name__ == "__main__":
    main()
