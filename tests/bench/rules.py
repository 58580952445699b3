# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long it takes to bring Services into the kernel, ours against kube-proxy's: `make bench-rules`.

    cold       from no rules to all: our module as a user runs it, and `nft -f` of what it made; kube-proxy's first synchronisation
    changes    a Service more, an endpoint moved, a hundred endpoints replaced: our transaction, kube-proxy's synchronisation
    again      our module when there is nothing to do
    large      50,000 Services in the kernel, and the memory for it
    audit      our audit of the table that kube-proxy wrote
    packets    TCP connections to the first, the middle and the last Service, by the rules of each

All of it runs on this kernel, in network namespaces, the peers and ours in turn, over the same objects, which a real control plane
holds. Writes tests/bench/results/rules.json (raw figures and the machine), docs/rules-bench.svg, and the table in
docs/benchmarks/service-rules.md between its marks.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.bench import rules_cluster as cluster
from tests.bench import rules_measures as measure
from tests.bench.lab import machine
from tests.bench.rules_nodes import LEGACY, NFT, NFTABLES, Node, node, running
from tests.bench.rules_report import write_report
from tests.integration.kube_proxy import NODE, Api, KubeProxy, control_plane

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/rules.json"
SETS = Path("/var/cache/ballast/binaries/sets")
OURS, NOTHING = "ballast", "no rules"


@dataclass(frozen=True)
class Sizes:
    small: int = 1000
    main: int = 10000
    large: int = 50000
    cold_repeats: int = 3
    changes: int = 5
    audits: int = 3
    rounds: int = 5
    turns: int = 400


QUICK = Sizes(small=50, main=200, large=400, cold_repeats=1, changes=2, audits=1, rounds=1, turns=50)


class Bench:
    def __init__(self, api: Api, bin_dir: str, place: Path, sizes: Sizes, undo: ExitStack) -> None:
        self.api = api
        self.bin_dir = bin_dir
        self.place = place
        self.sizes = sizes
        self.undo = undo
        self.loader = cluster.Loader(api)
        self.roads: list[measure.Road] = []
        self.proxy = KubeProxy(f"{bin_dir}/kube-proxy", api.kubeconfig(f"nodes/{NODE}/kube-proxy"), place / "proxy")
        self.addresses = iter(f"10.97.249.{last}" for last in range(20, 250))

    def run(self, *, slow_peer: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"sizes": vars(self.sizes)}
        self.api.create(cluster.node())
        self.loader.create(cluster.others())
        self.loader.create(list(cluster.numbered(0, self.sizes.small)))
        say(f"roads of {self.sizes.small} Services")
        self.small_roads()
        begun = time.monotonic()
        self.loader.create(list(cluster.numbered(self.sizes.small, self.sizes.main)))
        say(f"{self.sizes.main} Services are in the API after {time.monotonic() - begun:.0f} s")
        snapshot = self.place / "snapshot.json"
        cluster.kubectl_snapshot(self.bin_dir, self.place / "admin.kubeconfig", snapshot)
        found["snapshot_bytes"] = snapshot.stat().st_size
        found["cold"] = self.cold(snapshot)
        found["changes"], found["audit"] = self.changes_and_audit(snapshot)
        found["large"] = self.large()
        if slow_peer:
            with node("slow", address=next(self.addresses)) as made:
                found["cold"][NFT] = [measure.start(self.proxy, made, NFT, services=self.sizes.main)]
                say(f"cold, {NFT}: {found['cold'][NFT]}")
        found["packets"] = measure.packets(self.roads, rounds=self.sizes.rounds, turns=self.sizes.turns)
        return found

    def road(self, rules: str, services: int) -> Node:
        """A node for packets, which stays until the end."""
        name = f"{rules.replace(' ', '-').replace('iptables', 'ipt')}-{services}"
        address = next(self.addresses) if rules in (NFTABLES, LEGACY) else ""
        return self.undo.enter_context(node(name, address=address, traffic=True))

    def small_roads(self) -> None:
        for kind in (NFTABLES, LEGACY):
            made = self.road(kind, self.sizes.small)
            measure.start(self.proxy, made, kind, services=self.sizes.small)
            self.add_road(kind, self.sizes.small, made)
        for services in (self.sizes.small, self.sizes.main):
            made = self.road(OURS, services)
            measure.load(made, measure.all_of(measure.compiled(cluster.snapshot(services))), self.place)
            self.add_road(OURS, services, made)
        direct = [cluster.endpoint_ip(number) for number in (0, self.sizes.main // 2, self.sizes.main - 1)]
        targets = measure.places(direct, cluster.TARGET_PORT)
        self.roads.append(measure.Road(NOTHING, 0, self.road(NOTHING, 0), targets))

    def add_road(self, rules: str, services: int, made: Node) -> None:
        addresses = [cluster.cluster_ip(number) for number in range(services)]
        if rules != OURS:
            known = set(addresses)
            addresses = [one for one in measure.destinations(made, rules) if one in known]
        self.roads.append(measure.Road(rules, services, made, measure.places(addresses)))

    def cold(self, snapshot: Path) -> dict[str, list[Any]]:
        """The rules of the last repeat stay for packets."""
        found: dict[str, list[Any]] = {"module": [], "nft": [], NFTABLES: [], LEGACY: []}
        text = measure.all_of(measure.compiled(json.loads(snapshot.read_text(encoding="utf-8"))))
        for number in range(self.sizes.cold_repeats):
            with node("module") as made:
                found["module"].append(measure.program(made, snapshot, self.place))
            with node("nft") as made:
                found["nft"].append(measure.load(made, text, self.place).told)
            for kind in (NFTABLES, LEGACY):
                with ExitStack() as short:
                    last = number == self.sizes.cold_repeats - 1
                    made = (
                        self.road(kind, self.sizes.main)
                        if last
                        else short.enter_context(node(kind, address=next(self.addresses)))
                    )
                    found[kind].append(measure.start(self.proxy, made, kind, services=self.sizes.main))
                    if last:
                        self.add_road(kind, self.sizes.main, made)
            say(f"cold: {json.dumps({name: rows[-1] for name, rows in found.items()})}")
        return found

    def changes_and_audit(self, snapshot: Path) -> tuple[list[Any], list[Any]]:
        base = json.loads(snapshot.read_text(encoding="utf-8"))
        changes, audits = [], []
        with node("peer", address=next(self.addresses)) as theirs, node("changes") as ours:
            done = measure.Changes(self.loader, base, ours)
            with running(self.proxy, theirs, NFTABLES) as peer:
                measure.first_sync(peer)
                for _number in range(self.sizes.audits):
                    audits.append(measure.audit(theirs, snapshot, self.place))
                    say(f"audit: {audits[-1]}")
                for number in range(self.sizes.changes):
                    changes.append(done.run(peer, number + 1, self.sizes.main // 2))
                    say(f"changes: {json.dumps(changes[-1])}")
        return changes, audits

    def large(self) -> list[Any]:
        text = measure.all_of(measure.compiled(cluster.snapshot(self.sizes.large)))
        found = []
        for number in range(self.sizes.cold_repeats):
            with ExitStack() as short:
                last = number == self.sizes.cold_repeats - 1
                made = self.road(OURS, self.sizes.large) if last else short.enter_context(node("large"))
                found.append(measure.load(made, text, self.place).told)
                if last:
                    self.add_road(OURS, self.sizes.large, made)
        say(f"large: {found}")
        return found


def say(text: str) -> None:
    print(text, flush=True)


def binaries(version: str) -> tuple[str, str]:
    """The set of programs in the cache that has kube-proxy `version`, else the newest; with the version that it has."""
    found: Mapping[str, Path] = {
        version_of(path): path.parent
        for path in sorted(SETS.glob("*/kube-proxy"), key=lambda path: path.lstat().st_mtime)
        if (path.parent / "etcd").exists()
    }
    if not found:
        sys.exit("there is no kube-proxy in the cache: make binaries")
    has = version if version in found else list(found)[-1]
    return str(found[has]), has


def version_of(program: Path) -> str:
    told = subprocess.run([str(program), "--version"], check=True, capture_output=True, text=True, timeout=30).stdout
    return told.split()[-1].removeprefix("v").partition("+")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kubernetes", default="1.36.4", help="version of kube-proxy; the newest cached one where that is not"
    )
    parser.add_argument(
        "--slow-peer", action="store_true", help="also kube-proxy with iptables-nft, which takes minutes"
    )
    parser.add_argument("--quick", action="store_true", help="a few Services, to try the program; nothing is written")
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else Sizes()
    bin_dir, version = binaries(arguments.kubernetes)
    signal.signal(signal.SIGTERM, interrupt)
    with ExitStack() as undo:
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="ballast-bench-")))
        found: dict[str, Any] = {"machine": machine(), "kubernetes": version, "tools": tools()}
        api = undo.enter_context(control_plane(version, bin_dir, place))
        bench = Bench(api, bin_dir, place, sizes, undo)
        found.update(bench.run(slow_peer=arguments.slow_peer))
    write_report(found, None if arguments.quick else RESULTS)


def tools() -> dict[str, str]:
    asked = {"nft": ["nft", "--version"], "iptables": ["iptables", "--version"]}
    return {
        name: subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30).stdout.strip()
        for name, argv in asked.items()
    }


def interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; all that was made for it is removed")
