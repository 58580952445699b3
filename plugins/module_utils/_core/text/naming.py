# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How messages and titles refer to a lab or a control plane."""

from __future__ import annotations


def format_name(kind: str, name: str) -> str:
    """`lab` for the default name, else `lab "two"`. The default name is the last word of `kind`."""
    return kind if name == kind.split()[-1] else f'{kind} "{name}"'
