# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run that changes nothing costs a fleet: `make bench-fleet`.

    ours         one task of ballast.kube.node, with the node features that need no kubelet that runs: kube_proxy, image_pull_proxy, image_pulls
    apart        the same by three tasks, of the modules of these names
    stock        the same files, services and questions by template, copy, file, lineinfile, service and command
    one_empty    one task of `command: true`, which is what Ansible takes for a task that does nothing
    three_empty  three of them

1, 10 and 50 hosts (fleet_hosts.py), all of them in turn, stock on up to 10, each also with `--check --diff`. A run is the whole
`ansible-playbook`, with ssh connections of its own; it counts when every host is reached and nothing has changed. Writes
tests/bench/results/fleet.json (raw figures and the machine), and the table in docs/fleet.md between its marks.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from scripts.test_times import read_ticks
from tests.bench.fleet_hosts import Fleet, fleet
from tests.bench.fleet_report import WHO, write_report
from tests.bench.lab import machine
from tests.bench.rules import interrupt, say
from tests.integration.plane_lab import VERSION, binaries, plane

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/fleet.json"
PLAYS = Path(__file__).with_name("fleet")
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
OURS, APART, STOCK = WHO[:3]
MODES = {"converge": (), "check": ("--check", "--diff")}
SIZES = "1x5,10x3,50x1"
_STOCK_MOST = 10  # hosts: fifty take stock modules ten minutes
_RUN_SECONDS = 1800
_RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)
# Of what ours wrote on the first host: what stock's templates are made of, by the name that the play gives them.
_WRITTEN = {
    "kube-proxy.conf.j2": "var/lib/kube-proxy/config.conf",
    "ballast-pull-proxy.pyz": "usr/local/lib/ballast-pull-proxy/ballast-pull-proxy.pyz",
    "ballast-pull-proxy.j2": "usr/local/bin/ballast-pull-proxy",
    "pull-proxy.json.j2": "etc/ballast/pull-proxy.json",
    "run.j2": "var/lib/ballast/pull-proxy/sv/ballast-pull-proxy/run",
    "kubelet.conf.j2": "etc/kubernetes/kubelet.conf.d/90-ballast-image-pulls.conf",
    "containerd.toml.j2": "etc/containerd/conf.d/90-ballast-image-pulls.toml",
}


@dataclass(frozen=True)
class Run:
    """`busy` is what the cores of this machine worked meanwhile, all processes together."""

    seconds: float
    busy_seconds: float


@dataclass
class Bench:
    fleet: Fleet
    programs: str
    place: Path = field(init=False)

    def __post_init__(self) -> None:
        self.place = self.fleet.place / "controller"
        self.place.mkdir()

    def play(self, who: str, hosts: int, *arguments: str, no_change: bool = True) -> Run:
        """One run on the first so many hosts, from the command to its end."""
        with self._inventory() as inventory:
            limit = f"all[0:{hosts - 1}]" if hosts > 1 else "all[0]"
            given = [
                "-i",
                str(inventory),
                "--limit",
                limit,
                "-e",
                f"fleet_files={self.place}",
                "-e",
                f"fleet_programs={self.programs}",
            ]
            argv = [str(PLAYBOOK), *given, *arguments, str(PLAYS / f"{who}.yml")]
            busy, begun = _busy_seconds(), time.monotonic()
            done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
            run = Run(round(time.monotonic() - begun, 3), round(_busy_seconds() - busy, 2))
        rows = _RECAP.findall(done.stdout)
        bad = [row for row in rows if row[2:] != ("0", "0") or (no_change and row[1] != "0")]
        if done.returncode != 0 or len(rows) != hosts or bad:
            sys.exit(
                f"{who} on {hosts} hosts, {len(bad)} not as they should be:\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
            )
        return run

    def prepare(self) -> None:
        """Bring every host to where the runs find it, and make stock's files of what is there then."""
        self.play(OURS, len(self.fleet.hosts), no_change=False)
        first = self.fleet.hosts[0]
        for name, path in _WRITTEN.items():
            shutil.copyfile(first.upper / path, self.place / name)
        config = self.place / "kube-proxy.conf.j2"
        text = config.read_text(encoding="utf-8").replace(f'"{first.name}"', '"{{ inventory_hostname }}"')
        config.write_text(text, encoding="utf-8")
        for who in (APART, STOCK):
            self.play(who, 1)  # changes nothing either: the results are the same

    @contextmanager
    def _inventory(self) -> Iterator[Path]:
        """With ssh connections that end with the run: the next one makes its own."""
        masters = Path(tempfile.mkdtemp(dir=self.place))
        path = self.place / "inventory.json"
        self.fleet.inventory(path, masters)
        try:
            yield path
        finally:
            for master in masters.iterdir():
                subprocess.run(
                    ["ssh", "-o", f"ControlPath={master}", "-O", "exit", "x"], capture_output=True, check=False
                )
            shutil.rmtree(masters, ignore_errors=True)  # ssh removes its own there meanwhile


def _busy_seconds() -> float:
    """Of all cores since boot."""
    return read_ticks().in_use / os.sysconf("SC_CLK_TCK")


def measure(bench: Bench, sizes: Sequence[tuple[int, int]], modes: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for hosts, repeats in sizes:
        for number in range(repeats):
            # Another one is first in each turn.
            turn = [WHO[(number + place) % len(WHO)] for place in range(len(WHO))]
            order = [who for who in turn if who != STOCK or hosts <= _STOCK_MOST]
            for mode in modes:
                for who in order:
                    run = bench.play(who, hosts, *MODES[mode])
                    rows.append(
                        {"hosts": hosts, "who": who, "mode": mode, "seconds": run.seconds, "busy": run.busy_seconds}
                    )
                    say(f"{hosts} hosts, {mode}, {who}: {run.seconds:.2f} s, {run.busy_seconds:.1f} s of the cores")
    return rows


def idle_load() -> float:
    """Of the cores, what the fleet takes while nobody asks anything of it."""
    seconds, busy = 10.0, _busy_seconds()
    time.sleep(seconds)
    return round((_busy_seconds() - busy) / seconds, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", default=SIZES, help=f"HOSTSxREPEATS, by default {SIZES}; nothing is written of others"
    )
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--quick", action="store_true", help="the shortest, to try the program")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    if shutil.which("ssh") is None:
        sys.exit("there is no ssh\n  do:    apt-get install openssh-client")
    text = "1x1,2x1" if arguments.quick else arguments.sizes
    sizes = [(int(hosts), int(repeats)) for hosts, _x, repeats in (one.partition("x") for one in text.split(","))]
    found: dict[str, Any] = {
        "machine": machine(),
        "kubernetes": VERSION,
        "ansible": metadata.version("ansible-core"),
        "sizes": sizes,
    }
    bin_dir = binaries(VERSION)
    with plane("full") as here, fleet(max(hosts for hosts, _repeats in sizes), here, bin_dir) as made:
        bench = Bench(made, bin_dir)
        say(f"{len(made.hosts)} hosts are up")
        bench.prepare()
        found["idle"] = idle_load()
        found["runs"] = measure(bench, sizes, arguments.modes)
    whole = text == SIZES and len(arguments.modes) == len(MODES)
    write_report(found, RESULTS if whole else None)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; all that was made for it is removed")
