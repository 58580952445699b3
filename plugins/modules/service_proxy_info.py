#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_proxy_info
short_description: Report the service proxy of a node
version_added: 1.0.0
description:
  - Reports whether C(ballast-service-proxy) runs on this node, whether it follows the cluster, and which Services it refuses.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._service_proxy
  - ballast.kube._readiness
seealso:
  - module: ballast.kube.service_proxy
"""

EXAMPLES = r"""
- name: Look at the service proxy of this node
  ballast.kube.service_proxy_info:
  register: proxy

- name: Show what it does
  ansible.builtin.debug:
    var: proxy.status
"""

RETURN = r"""
command:
  description: Path of the command.
  returned: success
  type: str
  sample: /usr/local/bin/ballast-service-proxy
config_path:
  description: Path of its settings.
  returned: success
  type: str
  sample: /etc/ballast/service-proxy.json
log:
  description: Path of its log.
  returned: success
  type: str
  sample: /var/log/ballast-service-proxy/service-proxy.log
pid:
  description: Process of the program; null where none runs.
  returned: success
  type: int
missing_packages:
  description: Packages that the program needs and this node lacks, by the names of its own distribution.
  returned: success
  type: list
  elements: str
  sample: [python3-prometheus-client]
status:
  description: Output of C(ballast-service-proxy status --json); null if the program does not respond.
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
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.info import read_params
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.request import INFO_SPEC


def main() -> None:
    run_info(INFO_SPEC, read_params)


if __name__ == "__main__":
    main()
