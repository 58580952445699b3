# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of who else keeps kube-proxy or the kubelet's limits into docs/reference/kube-proxy-backends.md, from the owners themselves.

    python -m scripts.owner_table            # write
    python -m scripts.owner_table --check    # say whether the page would change; status 1 if so

The table stands between two marks, which are written by hand with the rest of the page:

    <!-- owners: begin -->
    <!-- owners: end -->
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.written import ROOT, between, run

sys.path.insert(0, str(ROOT / ".build" / "collections"))  # made by `make env`

from ansible_collections.ballast.kube.plugins.module_utils._kubelet.owners import OWNERS, Owner

PAGE = ROOT / "docs/reference/kube-proxy-backends.md"
BEGIN, END = "<!-- owners: begin -->", "<!-- owners: end -->"
_HEAD = """| owner | known by | kube-proxy there | what to do instead | image pulls | known from |
|---|---|---|---|---|---|
"""


def as_markdown() -> str:
    return _HEAD + "".join(map(_row, OWNERS))


def _row(owner: Owner) -> str:
    pulls = (
        f"[its own way](errors-image-pulls.md#pulls-node-{owner.family or owner.name})"
        if owner.image_pulls
        else "the node's own"
    )
    source = owner.source + (" (believed)" if owner.believed else "")
    cells = (owner.title, owner.signs, owner.runs or "the node's own", owner.kube_proxy, pulls, source)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def files() -> Iterator[tuple[Path, str]]:
    yield PAGE, between(PAGE, BEGIN, END, "\n" + as_markdown())


def main(arguments: list[str]) -> int:
    return run("owner_table", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
