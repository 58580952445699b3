#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_logs
short_description: "Internal: collect a lab's diagnostics into one archive"
version_added: 1.0.0
description:
  - Writes a support bundle, one archive in C(logs) in the lab's directory.
  - It contains the lab's events, the logs of its services, the consoles of its virtual machines, the objects of its API and the network
    state of its nodes.
  - It lists only the host processes that belong to the lab's services. It excludes environment, commands, arguments and annotations of pods.
  - It excludes keys, certificates, Secrets and ConfigMaps. Passwords, tokens and credentials in URLs are replaced by C((redacted)).
  - It contains the end of each log, and at most 128 MiB of content. Its mode is 0600.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._lab
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run writes another archive.
"""

EXAMPLES = r"""
- name: Collect the lab's diagnostics
  ballast.kube.lab_logs:
    lab_dir: /var/lib/ballast/lab
  register: bundle
"""

RETURN = r"""
path:
  description: The support bundle.
  returned: success
  type: str
  sample: /var/lib/ballast/lab/logs/lab-20261121-101500.tar.gz
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run_task
from ansible_collections.ballast.kube.plugins.module_utils._lab.logs import SPEC, collect


def main():
    run_task(SPEC, lambda host, params: {"path": collect(host, params["lab_dir"])})


if __name__ == "__main__":
    main()
