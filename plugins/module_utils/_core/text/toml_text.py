# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one writer of strings in TOML, of which the configuration of containerd and CRI-O is made."""

from __future__ import annotations

import json


def toml_string(text: str) -> str:
    """A basic string: quoted as in JSON, but characters beyond the basic plane as they are, and DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
