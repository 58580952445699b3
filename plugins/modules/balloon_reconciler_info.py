#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: balloon_reconciler_info
short_description: Report the balloon reconciler of a machine
version_added: 1.0.0
description:
  - Reports whether the reconciler of balloons runs on this machine, the state of nodes and hosts, and what it waits for.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
  - ballast.kube._balloon_reconciler
seealso:
  - module: ballast.kube.balloon_reconciler
"""

EXAMPLES = r"""
- name: Look at what the reconciler sees
  ballast.kube.balloon_reconciler_info:
  register: reconciler

- name: Show them
  ansible.builtin.debug:
    var: reconciler.status
"""

RETURN = r"""
command:
  description: Path of the command.
  returned: success
  type: str
  sample: /usr/local/bin/ballast-balloons
config_path:
  description: Path of its settings.
  returned: success
  type: str
  sample: /etc/ballast/balloons.json
log:
  description: Path of its log.
  returned: success
  type: str
  sample: /var/log/ballast-balloons/balloons.log
pid:
  description: Process of the reconciler; null where none runs.
  returned: success
  type: int
missing_packages:
  description: Packages that the reconciler needs and this machine lacks, by the names of its own distribution.
  returned: success
  type: list
  elements: str
  sample: [python3-prometheus-client]
status:
  description: Output of C(ballast-balloons status --json); null if the reconciler does not respond.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_info
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.request import INFO_SPEC


def main() -> None:
    run_info(INFO_SPEC, ENGINE.read)


if __name__ == "__main__":
    main()
