# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ipvs cells of the matrix: a virtual machine whose kernel has ip_vs runs them all (ipvs_in_vm.py) and ends; what they wrote is
audited and recorded here."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._audit.info import trace_and_audit
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.integration import uml
from tests.matrix.cells import IPVS, cells
from tests.unit.audit.matrix_records import IPVS_FOLDER, Record, about_rules, params_of, shown, write

_MEMORY_MIB = 2048
_START_SECONDS, _VERSION_SECONDS = 600, 1800
_PREPARE = """\
ip link set lo up
mkdir /run/share
mount -t hostfs share /run/share -o {share}
export PYTHONPATH={path}"""


def run(programs: Mapping[str, Path], bin_dir: Path, place: Path, *, chosen: str) -> int:
    """The count of cells with findings, which are printed. `programs`: kube-proxy by version; `bin_dir` has etcd and
    kube-apiserver; `chosen`: text in the titles of the cells to run, which are recorded only where it is ""."""
    share = place / "share"
    share.mkdir()
    (share / "request.json").write_text(json.dumps({version: str(path) for version, path in programs.items()}))
    order = [sys.executable, "-m", "tests.matrix.ipvs_in_vm", "/run/share", str(bin_dir), chosen]
    prepare = _PREPARE.format(share=share, path=":".join(path for path in sys.path if path))
    seconds = _START_SECONDS + _VERSION_SECONDS * len(programs)
    uml.run(order, prepare=prepare, place=place, seconds=seconds, console=sys.stdout, memory_mib=_MEMORY_MIB)
    return sum(_judge(version, share / f"{version}.json", place, is_recorded=not chosen) for version in programs)


def _judge(version: str, path: Path, place: Path, *, is_recorded: bool) -> int:
    if not path.exists():
        print(f"{version}: the virtual machine has ended before", flush=True)
        return 1
    made = json.loads(path.read_text(encoding="utf-8"))
    configs = {cell.title: cell.config for cell in cells(int(version.split(".")[1])) if cell.mode == IPVS}
    records = [Record(IPVS, title, dict(configs[title]), dump) for title, dump in made["records"]]
    wrong = 0
    for record in records:
        dump = place / "dump"
        dump.write_text(record.dump, encoding="utf-8")
        found = trace_and_audit(LocalHost(), params_of(IPVS, record.config, made["snapshot"], str(dump)))
        findings = [shown(finding) for finding in about_rules(found["findings"])]
        if findings:
            wrong += 1
            print(f"  {version} {IPVS}, {record.title}:", *findings, sep="\n    ", flush=True)
    print(f"{version}: {len(records)} cells of ipvs, {wrong} with findings", flush=True)
    if is_recorded:
        write(version, made["snapshot"], records, IPVS_FOLDER)
    return wrong
