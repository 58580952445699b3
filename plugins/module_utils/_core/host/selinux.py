# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SELinux label that this machine's policy assigns to a path: what restorecon(8) would set."""

from __future__ import annotations

import os
from typing import Any, Optional

ATTRIBUTE = "security.selinux"
_ENABLED = "/sys/fs/selinux/enforce"  # exists if SELinux is enabled, whether enforcing or permissive


def policy_label(path: str, mode: int) -> Optional[bytes]:
    """The label as the value of the extended attribute. `mode` is that of stat(2), including the file type. None if SELinux
    is disabled or the policy has no label for the path."""
    library = _library() if os.path.exists(_ENABLED) else None
    if library is None:
        return None
    from ctypes import byref, c_char_p

    label = c_char_p()
    if library.matchpathcon(os.fsencode(path), mode, byref(label)) != 0:
        return None
    value = label.value or b""
    library.freecon(label)
    return value + b"\0"


def _library() -> Any:
    """libselinux; None if it is not installed: then nothing on this machine could label files by policy."""
    import ctypes

    try:
        library = ctypes.CDLL("libselinux.so.1")
    except OSError:
        return None
    library.matchpathcon.argtypes = (ctypes.c_char_p, ctypes.c_uint, ctypes.POINTER(ctypes.c_char_p))
    library.freecon.argtypes = (ctypes.c_char_p,)
    library.freecon.restype = None
    return library
