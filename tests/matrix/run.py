# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the kube-proxy of each minor version with each setting that changes rules; its rules, live and as a dump, must give no finding.

    python -m tests.matrix.run [--ipvs] [VERSION ...]

What each cell wrote is recorded in tests/unit/audit/cases/matrix, from which tests/unit/audit/test_matrix.py asks the same of every
commit. A cell with a finding is printed, and recorded too: the unit test fails until it is right.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._audit.info import trace_and_audit
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.integration import containerds
from tests.integration.kube_proxy import NODE, NodeHost, connected, node
from tests.matrix import binaries, cluster, ipvs
from tests.matrix.cells import IPVS, LEGACY, NFT, NFTABLES, Cell, cells
from tests.matrix.plane import Api, control_plane
from tests.matrix.proxy import KubeProxy, add_addresses
from tests.unit.audit.matrix_records import Record, about_rules, params_of, shown, write

_SYNC_SECONDS = 60
_WRITTEN = {NFTABLES: "service-ips", NFT: "KUBE-SERVICES", LEGACY: "KUBE-SERVICES"}
_STARTS = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bin-dir", type=Path, help="with etcd and kube-apiserver, in the place of the project's own")
    parser.add_argument("--cells", default="", help="only those whose title has this text; nothing is recorded")
    parser.add_argument("--ipvs", action="store_true", help="those of mode ipvs, in a virtual machine")
    parser.add_argument("versions", nargs="*", default=binaries.VERSIONS)
    arguments = parser.parse_args()
    wrong = 0
    programs = {version: binaries.kube_proxy(version) for version in sorted(arguments.versions)}
    bin_dir = arguments.bin_dir or containerds.bin_dir()
    later = cluster.rivals()
    with tempfile.TemporaryDirectory(prefix="ballast-matrix-") as name:
        place = Path(name)
        if arguments.ipvs:
            return 1 if ipvs.run(programs, bin_dir, place, chosen=arguments.cells) else 0
        with control_plane(bin_dir, place, cluster.objects()) as api:
            for version, program in programs.items():
                minor = int(version.split(".")[1])
                api.set_version(NODE, f"v{version}")
                while later and minor >= cluster.RIVALS_SINCE:
                    api.create(later.pop(0))
                runner = _Runner(api, program, place)
                chosen = [cell for cell in cells(minor) if cell.mode != IPVS and arguments.cells in cell.title]
                records = [runner.run(cell) for cell in chosen]
                wrong += runner.wrong
                print(f"{version}: {len(records)} cells, {runner.wrong} with findings", flush=True)
                if not arguments.cells:
                    write(version, api.snapshot(), records)
    return 1 if wrong else 0


class _Runner:
    """Of one version."""

    def __init__(self, api: Api, program: Path, place: Path) -> None:
        self.snapshot = api.snapshot()
        self.wrong = 0
        self._proxy = KubeProxy(program, api.kubeconfig, place)
        self._place = place

    def run(self, cell: Cell) -> Record:
        """On a node of its own. kube-proxy is started again where it wrote its rules before it knew its Node."""
        with node("matrix") as host:
            add_addresses(host)
            findings: list[str] = []
            for _attempt in range(_STARTS):
                with connected(host), self._proxy.running(host, cell):
                    findings = self._settled(host, cell)
                if not findings:
                    break
            dump = _dump(host, cell)
        findings = findings or self._audit(LocalHost(), cell, self._write("dump", dump))
        if findings:
            self.wrong += 1
            print(f"  1.{cell.minor} {cell.mode}, {cell.title}:", *findings, sep="\n    ", flush=True)
        return Record(cell.mode, cell.title, dict(cell.config), dump)

    def _settled(self, host: NodeHost, cell: Cell) -> list[str]:
        """The findings about its live rules once there are none, or at the end of the time."""
        deadline = time.monotonic() + _SYNC_SECONDS
        while True:
            # Our live audit asks for the variant that the host's iptables writes.
            dump = _dump(host, cell)
            path = self._write("dump", dump) if cell.mode == LEGACY else None
            findings = self._audit(host, cell, path) if _WRITTEN[cell.mode] in dump else ["it has written nothing"]
            if not findings or time.monotonic() > deadline:
                return findings
            time.sleep(0.5)

    def _audit(self, host: LocalHost, cell: Cell, dump: Path | None) -> list[str]:
        params = params_of(cell.backend, cell.config, self.snapshot, str(dump) if dump else None)
        try:
            return [shown(finding) for finding in about_rules(trace_and_audit(host, params)["findings"])]
        except BallastError as error:  # the first rules are being written
            return [error.text]

    def _write(self, name: str, text: str) -> Path:
        path = self._place / name
        path.write_text(text, encoding="utf-8")
        return path


def _dump(host: NodeHost, cell: Cell) -> str:
    if cell.mode == NFTABLES:
        return host.run(["nft", "list", "ruleset"], timeout=60).stdout
    variant = cell.mode.partition("-")[2]
    saved = [host.run([f"{program}-{variant}-save"], timeout=60).stdout for program in ("iptables", "ip6tables")]
    return "".join(line + "\n" for line in "".join(saved).splitlines() if not line.startswith("# Completed"))


if __name__ == "__main__":
    sys.exit(main())
