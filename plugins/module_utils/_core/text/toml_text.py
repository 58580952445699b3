# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one writer of TOML strings, for the configuration of containerd and CRI-O."""

from __future__ import annotations

import json


def toml_string(text: str) -> str:
    """A basic string: quoted as in JSON, but with non-ASCII characters unescaped and DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
