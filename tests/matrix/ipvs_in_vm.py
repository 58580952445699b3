# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs in the virtual machine that ipvs.py starts: kube-proxy in mode ipvs, cell by cell, and writes what each put into the kernel.

    python -m tests.matrix.ipvs_in_vm SHARE PROGRAMS CELLS

A process takes the machine tens of milliseconds to start, and kube-proxy starts hundreds in each cell. So nothing is judged here,
and kube-proxy's log says when its rules are complete.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.integration.kube_proxy import NODE, NodeHost, connected, node
from tests.matrix import cluster
from tests.matrix.cells import IPVS, Cell, cells
from tests.matrix.plane import Api, control_plane
from tests.matrix.proxy import KubeProxy, add_addresses

_BEGUN, _COMPLETE = "Syncing ipvs proxier rules", "syncProxyRules complete"  # in kube-proxy's log from level 4 on
_FAMILIES = 2
_QUIET_SECONDS, _SYNC_SECONDS = 2, 300
_DUMP = "ipvsadm -S -n && ipset save && ip -j address && iptables-legacy-save && ip6tables-legacy-save"


def main() -> None:
    """SHARE has the request, and gets a file for each version as soon as that is complete: snapshot and records."""
    share, programs, chosen = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    request: Mapping[str, str] = json.loads((share / "request.json").read_text(encoding="utf-8"))
    later = cluster.rivals()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with control_plane(programs, place, cluster.objects()) as api:
            for version, program in request.items():
                minor = int(version.split(".")[1])
                api.set_version(NODE, f"v{version}")
                while later and minor >= cluster.RIVALS_SINCE:
                    api.create(later.pop(0))
                snapshot = api.snapshot()
                due = [cell for cell in cells(minor) if cell.mode == IPVS and chosen in cell.title]
                records = [[cell.title, dump] for cell, dump in _record(api, Path(program), place, due)]
                text = json.dumps({"snapshot": snapshot, "records": records})
                (share / f"{version}.json").write_text(text, encoding="utf-8")


def _record(api: Api, program: Path, place: Path, due: Sequence[Cell]) -> Iterator[tuple[Cell, str]]:
    proxy = KubeProxy(program, api.kubeconfig, place, verbosity=4)
    for cell in due:
        begun = time.monotonic()
        with node("matrix") as host:
            add_addresses(host)
            with connected(host), proxy.running(host, cell):
                _wait_until_settled(proxy.log(cell))
            yield cell, _dump(host)
        print(f"1.{cell.minor} {cell.title}: {time.monotonic() - begun:.0f} s", flush=True)


def _wait_until_settled(log: Path) -> None:
    """Until both families are written, and nothing more is for a while: it writes again when it knows its Node."""
    deadline = time.monotonic() + _SYNC_SECONDS
    seen, since = (0, 0), time.monotonic()
    while time.monotonic() < deadline:
        text = log.read_text(encoding="utf-8", errors="replace")
        counts = text.count(_BEGUN), text.count(_COMPLETE)
        if counts != seen:
            seen, since = counts, time.monotonic()
        begun, complete = counts
        if begun == complete >= _FAMILIES and time.monotonic() - since > _QUIET_SECONDS:
            return
        time.sleep(0.2)
    raise SystemExit(f"kube-proxy has not settled in {_SYNC_SECONDS} s: {log.read_text(encoding='utf-8')[-2000:]}")


def _dump(host: NodeHost) -> str:
    saved = host.run(["sh", "-c", _DUMP], timeout=120).stdout
    return "".join(line + "\n" for line in saved.splitlines() if not line.startswith("# Completed"))


if __name__ == "__main__":
    main()
