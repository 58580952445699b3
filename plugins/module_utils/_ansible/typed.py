# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validates option values as Ansible would, for a module that gets the options of another module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator


def read_typed(
    spec: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any], *, required_if: Sequence[Any] = ()
) -> tuple[dict[str, Any], list[str]]:
    """The values, converted to the types of `spec` and with defaults added, and the errors. Ansible warns of former
    names."""
    # A copy, because Ansible writes defaults of suboptions into a default that is a dictionary, which belongs to the spec.
    result = ModuleArgumentSpecValidator(deepcopy(dict(spec)), required_if=list(required_if)).validate(dict(values))
    return dict(result.validated_parameters), list(result.error_messages)
