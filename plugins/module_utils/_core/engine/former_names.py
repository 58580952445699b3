# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Former names of options, which Ansible accepts with a warning until the next major release."""

from __future__ import annotations

from typing import Any


def formerly(name: str) -> dict[str, Any]:
    """Additional keys for the argument spec of an option that used to be called `name`."""
    return {
        "aliases": [name],
        "deprecated_aliases": [{"name": name, "version": "2.0.0", "collection_name": "ballast.kube"}],
    }
