# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: the option of the info modules that answer the production readiness questionnaire.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  readiness:
    description:
      - Also answer what of the production readiness questionnaire can be measured on this host, as RV(readiness). Nothing is changed.
      - Where the feature is not on, the answer says so, and what the feature needs may be absent.
    type: bool
    default: false
"""
