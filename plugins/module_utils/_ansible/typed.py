# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of options as Ansible would take them, where a module is given the options of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator


def read_typed(
    spec: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any], *, required_if: Sequence[Any] = ()
) -> tuple[dict[str, Any], list[str]]:
    """The values in the types of `spec`, with the defaults of what was not given; and what is wrong with them. Of former names, Ansible warns."""
    # Ansible writes defaults of suboptions into a default that is a dictionary, which is the spec's own.
    result = ModuleArgumentSpecValidator(deepcopy(dict(spec)), required_if=list(required_if)).validate(dict(values))
    return dict(result.validated_parameters), list(result.error_messages)
