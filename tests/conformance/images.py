# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images that Kubernetes' tests run, from images.yml and the names that e2e.test lists. Pure but for reading images.yml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import PRESETS

TABLE = Path(__file__).with_name("images.yml")


def archive_options(listed: Iterable[str], *, bin_dir: str, sources: str) -> dict[str, Any]:
    """`images`, `names` and `definitions` of image_archive for those of the `listed` names ("registry.k8s.io/pause:3.10.2") that
    images.yml has. Of a preset that is listed with several tags, all but the last are left out."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    presets: dict[str, str] = {}
    definitions = []
    for name in sorted(set(listed)):
        short = name.rpartition("/")[2].partition(":")[0]
        if short in table["presets"]:
            presets[short] = name
        elif short in table["images"]:
            filled = _fill(table["images"][short], {"{bin_dir}": bin_dir, "{sources}": sources})
            definitions.append({"name": name, **_above(filled)})
    return {"images": sorted(presets), "names": presets, "definitions": definitions}


def list_not_run(focus: str) -> dict[str, str]:
    """Of those that the regular expression chooses, with the reason."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {name: reason for name, reason in table["not_run"].items() if re.search(focus, name)}


def _above(definition: dict[str, Any]) -> dict[str, Any]:
    """The definition with what it has of an image of image_archive (`above`), whose links it may replace."""
    if "above" not in definition:
        return definition
    own = {key: value for key, value in definition.items() if key != "above"}
    preset = PRESETS[definition["above"]]
    replaced = {link["path"] for link in own.get("links", [])}
    links = [asdict(link) for link in preset.links if link.path not in replaced]
    files = [
        {"path": file.path, **({"source": file.source} if file.source else {"content": file.content})}
        for file in preset.files
    ]
    return {
        "packages": list(preset.packages),
        "entrypoint": list(preset.entrypoint),
        "env": dict(preset.env),
        **own,
        "directories": [*map(asdict, preset.directories), *own.get("directories", [])],
        "files": [*files, *own.get("files", [])],
        "links": [*links, *own.get("links", [])],
    }


def _fill(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(part, places) for key, part in value.items()}
    if isinstance(value, list):
        return [_fill(part, places) for part in value]
    if isinstance(value, str):
        for mark, path in places.items():
            value = value.replace(mark, path)
    return value
