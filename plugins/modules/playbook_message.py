#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: playbook_message
short_description: "Internal: print what a playbook of this collection reports, as plain lines"
version_added: 1.0.0
description:
  - Prints text as it is, where M(ansible.builtin.debug) prints it as JSON with the callbacks P(ansible.builtin.default#callback) and
    P(ansible.builtin.minimal#callback).
  - Callbacks that print data, such as JSON, get the text as a result and nothing else.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  msg:
    description: A text, or a list of lines.
    type: raw
    required: true
seealso:
  - module: ballast.kube.playbook_report
"""

EXAMPLES = r"""
- name: Print the summary
  ballast.kube.playbook_message:
    msg: "{{ kube_proxy_preview.lines }}"
"""

RETURN = r"""
msg:
  description: The same.
  returned: success
  type: raw
  sample: ["ipvs -> nftables: 496 nodes (n[001-496])"]
"""
