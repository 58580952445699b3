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
      - Also report what can be measured on this host for the production readiness questionnaire, as RV(readiness). Nothing is changed.
      - If the feature is off, the report says so, and its requirements may be missing.
    type: bool
    default: false
"""
