# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a checkout becomes a part of the collection, and so of an image that others pull."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.build import SHIPPED_FILES, copy_shipped


def test_files_of_the_operator_in_a_checkout_are_in_no_image(tmp_path: Path) -> None:
    root, place = tmp_path / "root", tmp_path / "place"
    of_the_collection = {*SHIPPED_FILES, "galaxy.yml", "plugins/modules/new.py", "roles/a/tasks/main.yml"}
    others = {"management.kubeconfig", "hosts.yml", "fleet/report.json", "key", "tests/a.py", "plugins/cache.pyc"}
    for name in of_the_collection | others | {".gitignore"}:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("*.pyc\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    copy_shipped(place, root)
    copied = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert copied == of_the_collection
