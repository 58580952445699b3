# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The features that answer the production readiness questionnaire, with their YAML documents in readiness_features/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.text.document import parse_document

# In report order.
NAMES = (
    "kube_proxy",
    "service_proxy",
    "image_pulls",
    "image_pull_proxy",
    "balloons",
    "node_instances",
    "control_plane",
)
DIRECTORY = Path(__file__).resolve().parent / "readiness_features"


def read_documents(host: Host) -> list[Any]:
    """Documents for `parse_features`; None for a missing or empty file. UserError for a file that is not YAML."""
    texts = {name: (host.read(str(DIRECTORY / f"{name}.yml")) or b"").decode(errors="replace") for name in NAMES}
    return [parse_document(text, name=f"{name}.yml") for name, text in texts.items()]
