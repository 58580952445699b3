# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a switch of kube-proxy's backend costs its users, by our module and by editing the mode and restarting: `make bench-migrate`.

A node with a real kube-proxy, supervised, and 10,000 Services x 4 endpoints; load on three of them from a pod, from the node and
from outside (tests/integration/loaded_node.py). First a minute without a switch, in which nothing may fail. Then, in rounds:

    stock      the mode in the file edited, the service restarted
    ballast    the module kube_proxy, run on the node, to another mode
    rollback   the module kube_proxy with `state: previous`

and that from iptables in each of its variants; with `--from ipvs`, from there: in a virtual machine where this kernel has no
ip_vs.

Of each: new connections that failed, the longest outage, long-lived connections that broke, seconds. Each origin that is
through goes to tests/bench/results/migrate.json (raw figures and the machine) and, between its marks, to
docs/benchmarks/kube-proxy-backends.md, where the others keep what they have.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from tests.bench import rules_cluster as cluster
from tests.bench.in_machine import run_in_machine
from tests.bench.lab import machine
from tests.bench.migrate_report import write_report
from tests.bench.rules import binaries, interrupt, say, tools
from tests.bench.rules_nodes import Node, run_module
from tests.integration.kube_proxy import NODE, Api, control_plane
from tests.integration.loaded_node import LoadedNode, Rates, loaded_node, objects
from tests.integration.supervised_proxy import LEGACY, NFT, VIRTUAL_SERVERS, SupervisedProxy, supervised
from tests.load.running import Load, load

RESULTS = Path(__file__).resolve().parent / "results/migrate.json"
NFTABLES, IPTABLES, IPVS = "nftables", "iptables", "ipvs"
# The load goes to node ports on the primary address alone.
ACKNOWLEDGE = ["preflight-node-port-addresses", "preflight-node-port-localhost"]
# Away from it, and back. Each UDP request of the load is a flow of its own, which nobody goes on with.
_OF_IPVS = ["preflight-ipvs-deprecated"]
STOCK, BALLAST, ROLLBACK = "stock", "ballast", "rollback"
_VM_SERVICES, _VM_RATE = 200, 40  # at most, in a virtual machine: kube-proxy takes minutes for 1000 in ipvs mode there
_SYNC_SECONDS = 1800  # at most: iptables-nft takes many minutes for 10,000 Services
_BEFORE_SECONDS = 3  # without a failure, before a switch begins
_CALM_SECONDS = 5  # without one, after which it is over
_MOST_SECONDS = 300  # for that


@dataclass(frozen=True)
class Sizes:
    services: int = 10000
    calm: int = 60
    rounds: int = 3
    rate: int = 500  # of new connections, from a pod and from the node each: Rates.of


QUICK = Sizes(services=500, calm=5, rounds=1)


@dataclass(frozen=True)
class Origin:
    """Where a migration to nftables begins."""

    mode: str
    variant: str  # of the iptables that kube-proxy calls


ORIGINS: Mapping[str, Origin] = {
    LEGACY: Origin(IPTABLES, LEGACY),
    NFT: Origin(IPTABLES, NFT),
    IPVS: Origin(IPVS, LEGACY),
}


@dataclass(frozen=True)
class Road:
    """A node with load on it, and its kube-proxy."""

    made: LoadedNode
    proxy: SupervisedProxy
    running: Load
    origin: Origin

    def check(self, mode: str) -> None:
        """That the rules in the kernel are those of the mode, by the variant, and no others of Services."""
        variant = self.origin.variant
        other = NFT if variant == LEGACY else LEGACY
        found = {NFTABLES: bool(self.proxy.tables()), IPTABLES: self.proxy.chains(variant) > 0}
        wanted = {name: name == mode for name in found}
        if mode == IPVS:  # kube-proxy leaves its virtual servers behind when it goes on to another mode
            found[IPVS], wanted[IPVS] = self.proxy.virtual_servers() > 0, True
        if found != wanted or self.proxy.chains(other):
            raise RuntimeError(f"after the switch to {mode} (iptables: {variant}) there is: {found}")


class Void(RuntimeError):
    """The load fails by itself, or by what else the machine does: nothing that follows would say anything."""


Switch = Callable[[Road, str], Mapping[str, Any]]


def stock(road: Road, mode: str) -> Mapping[str, Any]:
    """What an operator does without us, up to the first synchronisation."""
    began = time.time()
    road.proxy.set_mode(mode)
    road.proxy.restart()
    return {"seconds": round(road.proxy.wait_for_sync(mode, since=began, timeout=_SYNC_SECONDS) - began, 3)}


def ballast(road: Road, mode: str) -> Mapping[str, Any]:
    return _module(road, {"state": "present", "mode": mode})


def rollback(road: Road, mode: str) -> Mapping[str, Any]:
    found = _module(road, {"state": "previous"})
    if road.proxy.mode() != mode:
        raise RuntimeError(f"rolled back to {road.proxy.mode()}, not to {mode}")
    return found


def _module(road: Road, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The module kube_proxy on the node. Its seconds are those of its process, which ends when all its gates hold."""
    given = {
        "deployment": "service",
        "service": road.proxy.service,
        "config_path": str(road.proxy.config_path),
        "state_dir": str(road.proxy.place / "state"),
        "acknowledge": [*ACKNOWLEDGE, *(_OF_IPVS if road.origin.mode == IPVS else [])],
        **options,
    }
    node = Node(road.made.host.namespace, road.made.host, road.made.host)
    run = run_module(node, "kube_proxy", given, road.proxy.place)
    found = {"seconds": run.process_seconds, "wall": run.wall_seconds, "stages": run.result["seconds"]}
    found["change"] = run.result["change_seconds"]
    if road.origin.mode == IPVS:
        # As the playbooks do. Virtual servers with open connections stay.
        removal = run_module(node, "kube_proxy_cleanup", {"state_dir": given["state_dir"]}, road.proxy.place)
        found["removal_seconds"], found["connections"] = removal.process_seconds, removal.result["connections"]
        if road.proxy.mode() != IPVS and road.proxy.virtual_servers() and not found["connections"]["kept"]:
            raise RuntimeError(f"virtual servers of ipvs are left: {removal.result}")
    return found


SWITCHES: Mapping[str, Switch] = {STOCK: stock, BALLAST: ballast, ROLLBACK: rollback}


def round_of(by: Sequence[str], mode: str) -> list[tuple[str, str]]:
    """The switches of a round and their modes, in turn, from `mode` to `mode`."""
    if BALLAST not in by:
        return [(STOCK, NFTABLES), (STOCK, mode)]
    ours = [(BALLAST, NFTABLES), (ROLLBACK, mode)]
    if mode == IPVS:  # every direction
        ours += [(BALLAST, IPTABLES), (ROLLBACK, mode), (BALLAST, IPTABLES), (BALLAST, NFTABLES), (BALLAST, IPTABLES)]
        ours += [(BALLAST, mode)]
    if STOCK not in by:
        return [*ours, (BALLAST, NFTABLES), (BALLAST, mode), (ROLLBACK, NFTABLES), (BALLAST, mode)]
    return [(STOCK, NFTABLES), (BALLAST, mode), (ROLLBACK, NFTABLES), (STOCK, mode), *ours]


def calm(running: Load, seconds: float) -> dict[str, Any]:
    """A time without a switch. Void when anything fails in it."""
    began = time.monotonic()
    time.sleep(seconds)
    found = running.summary(since=began, until=began + seconds)
    if found.total.failures or found.held.broken or found.held.open != running.held:
        raise Void(f"void: without a switch there were {found.total.errors}, {found.held}")
    return asdict(found)


def calm_at_last(running: Load, seconds: float) -> dict[str, Any]:
    """The first such time in which nothing fails. Void when there is none for long."""
    deadline = time.monotonic() + _MOST_SECONDS
    while True:
        try:
            return calm(running, seconds)
        except Void:
            if time.monotonic() > deadline:
                raise


def switched(road: Road, by: str, mode: str) -> dict[str, Any]:
    """One switch, and what the load saw from its beginning until nothing had failed for some seconds."""
    road.running.wait_for_held()
    calm_at_last(road.running, _BEFORE_SECONDS)
    left = road.proxy.mode()
    began = time.monotonic()
    told = SWITCHES[by](road, mode)
    done = time.monotonic()
    until = done + _CALM_SECONDS
    while True:
        found = road.running.summary(since=began, until=until)
        last = found.total.last_failure or began
        if until - last >= _CALM_SECONDS and not found.held.waiting:
            break
        if until - done > _MOST_SECONDS:
            raise RuntimeError(f"{by} to {mode}: {_MOST_SECONDS} s after it new connections fail still: {found.total}")
        until = time.monotonic()
    road.check(mode)
    return {"by": by, "from": left, "to": mode, **told, "began": began, **asdict(found)}


class Bench:
    def __init__(self, api: Api, bin_dir: str, place: Path, sizes: Sizes) -> None:
        self.api = api
        self.bin_dir = bin_dir
        self.place = place
        self.sizes = sizes
        self.roads = 0  # made so far

    def run(self, *, by: Sequence[str], origin: Origin, numbers: tuple[int, ...]) -> dict[str, Any]:
        """All switches from one origin and back, with load on the Services of those numbers."""
        switches = []
        with ExitStack() as undo:
            road = self.road(undo, origin, numbers, origin.mode)
            quiet = calm(road.running, self.sizes.calm)
            say(f"{quiet['total']['attempts']} connections, no failure without a switch")
            for number in range(self.sizes.rounds):
                for way, mode in round_of(by, origin.mode):
                    switches.append({"round": number, "fresh": False, **switched(road, way, mode)})
                    say(_line(switches[-1]))
        # kube-proxy leaves KUBE-FIREWALL behind, which keeps connection tracking alive. On a node without it, what
        # takes kube-proxy's nftables rules away takes tracking away too, and so the addresses of those who talk.
        for number in range(self.sizes.rounds if origin.mode == IPTABLES else 0):
            for way in by:
                with ExitStack() as undo:
                    road = self.road(undo, origin, numbers, NFTABLES)
                    switches.append({"round": number, "fresh": True, **switched(road, way, IPTABLES)})
                    say(f"fresh node: {_line(switches[-1])}")
        return {"calm": quiet, "switches": switches}

    def fill(self) -> tuple[int, ...]:
        """The cluster; answers which Services are loaded."""
        self.api.create(cluster.node())
        items, numbers = objects(self.sizes.services)
        begun = time.monotonic()
        with closing(cluster.Loader(self.api)) as loader:
            loader.create(items)
        say(f"{self.sizes.services} Services are in the API after {time.monotonic() - begun:.0f} s")
        return numbers

    def road(self, undo: ExitStack, origin: Origin, numbers: tuple[int, ...], mode: str) -> Road:
        """A node that begins in `mode`, its load under way."""
        made = undo.enter_context(loaded_node("migrate"))
        self.roads += 1
        place = self.place / str(self.roads)
        began = time.time()
        proxy = undo.enter_context(
            supervised(
                made.host,
                f"{self.bin_dir}/kube-proxy",
                self.api.kubeconfig(f"nodes/{NODE}/kube-proxy"),
                place,
                mode=mode,
                variant=origin.variant,
            )
        )
        proxy.wait_for_sync(mode, since=began, timeout=_SYNC_SECONDS)
        running = undo.enter_context(load(made.clients(numbers, Rates.of(self.sizes.rate)), place))
        running.wait_for_held()
        road = Road(made, proxy, running, origin)
        road.check(mode)
        return road


def _line(one: Mapping[str, Any]) -> str:
    total, held = one["total"], one["held"]
    return (
        f"{one['by']} to {one['to']}: {total['failures']} of {total['attempts']} failed {total['errors']}, "
        f"outage {total['outage_seconds']:.2f} s; long-lived: {held['broken']} broken {held['errors']}, "
        f"silence {held['silence_seconds']:.2f} s; {one['seconds']:.1f} s; lag {one['lag_seconds']:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kubernetes", default=DEFAULT_KUBERNETES, help="version; the newest cached one where that is not"
    )
    parser.add_argument("--services", type=int, help=f"{Sizes.services} by default")
    parser.add_argument("--calm", type=int, help=f"seconds without a switch, {Sizes.calm} by default")
    parser.add_argument("--rounds", type=int, help=f"{Sizes.rounds} by default")
    parser.add_argument("--rate", type=int, help=f"new connections per second, {Sizes.rate} by default")
    parser.add_argument("--by", action="append", choices=(STOCK, BALLAST), help="only this; may be repeated")
    parser.add_argument(
        "--from",
        dest="origins",
        action="append",
        choices=tuple(ORIGINS),
        help="from this one; may be repeated; both of iptables by default",
    )
    parser.add_argument("--keep", type=Path, help="a directory for records and logs, which stay there")
    parser.add_argument("--quick", action="store_true", help="a few Services, to try the program; nothing is written")
    parser.add_argument("--raw", type=Path, help="write the figures of one origin to this file, and nowhere else")
    arguments = parser.parse_args()
    base = QUICK if arguments.quick else Sizes()
    asked = {field.name: getattr(arguments, field.name) for field in fields(Sizes)}
    sizes = replace(base, **{name: value for name, value in asked.items() if value})
    by, origins = arguments.by or (STOCK, BALLAST), arguments.origins or (LEGACY, NFT)
    signal.signal(signal.SIGTERM, interrupt)
    with ExitStack() as undo:
        place = arguments.keep or Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="ballast-bench-")))
        place.mkdir(exist_ok=True)
        for name, found in measured(arguments.kubernetes, place, sizes, by, origins):
            if arguments.raw:
                arguments.raw.write_text(json.dumps(found), encoding="utf-8")
            else:
                write_report(name, found, None if arguments.quick else RESULTS)


def measured(
    kubernetes: str, place: Path, sizes: Sizes, by: Sequence[str], origins: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each origin and its figures, as soon as they are there."""
    bin_dir, version = binaries(kubernetes)
    here = [name for name in origins if name != IPVS or VIRTUAL_SERVERS.exists()]
    if here:
        about = {"machine": machine(), "kubernetes": version, "tools": tools(), "sizes": asdict(sizes)}
        with control_plane(version, bin_dir, place) as api:
            bench = Bench(api, bin_dir, place, sizes)
            numbers = bench.fill()
            for name in here:
                say(f"from {name}")
                yield name, {**about, **bench.run(by=by, origin=ORIGINS[name], numbers=numbers)}
    for name in origins:
        if name not in here:
            small = replace(sizes, services=min(sizes.services, _VM_SERVICES), rate=min(sizes.rate, _VM_RATE))
            say(
                f"from {name}, in a virtual machine, since this kernel has no ip_vs: {small.services} Services, load {small.rate}"
            )
            words = [f"--from={name}", f"--kubernetes={version}", *(f"--by={one}" for one in by)]
            words += [f"--{size}={value}" for size, value in asdict(small).items()]
            yield name, run_in_machine("tests.bench.migrate", words, place)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; all that was made for it is removed")
