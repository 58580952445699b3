# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a lab or a control plane is called in what people read."""

from __future__ import annotations


def format_name(kind: str, name: str) -> str:
    """`lab` where nobody gave it a name, else `lab "two"`. The name by default is the last word of the kind."""
    return kind if name == kind.split()[-1] else f'{kind} "{name}"'
