# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What limits of image pulls do, per kubelet and for the whole host, and what the pull proxy costs: `make bench-pulls`.

Three kubelets on one host, each with its own containerd, and a registry on it. In rounds, in turn:

    unlimited     kubelets without a limit
    per kubelet   maxParallelImagePulls, the most that upstream can do: so many times the kubelets are in flight
    host          the proxy, without joining
    host, join    the proxy

Of each: pods of 40 images, some large, one slow, some missing; and 40 pods of one image on one node. Then a critical pod
behind large ones, by order of arrival and by priority. Then the proxy by itself (pulls_single.py). Writes
tests/bench/results/pulls.json (raw figures and the machine), the table in docs/pull-proxy.md between its marks and its plot.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench import pulls_single
from tests.bench.lab import machine
from tests.bench.pulls_report import write_report
from tests.bench.rules import interrupt, say
from tests.integration.cri_meter import Pull
from tests.integration.kube_proxy import eventually
from tests.integration.pull_lab import Pod, PullLab, pull_lab
from tests.integration.pull_place import named
from tests.integration.pull_proxy import PullProxy, pull_proxy
from tests.integration.registry import Layer, image
from tests.integration.registry_front import Manner

RESULTS = Path(__file__).resolve().parent / "results/pulls.json"
UNLIMITED, PER_KUBELET, HOST, JOIN = "unlimited", "per kubelet", "host", "host, join"
ARMS = (UNLIMITED, PER_KUBELET, HOST, JOIN)
FIFO, PRIORITY = "fifo", "priority"
MIB = 2**20
_LATE_SECONDS = 900


@dataclass(frozen=True)
class Sizes:
    """`size`, `shared`, `same` and `large` are MiB of an image's own layers, of the shared one, of that of all pods, and of
    those before the critical one."""

    nodes: int = 3
    limit: int = 2
    images: int = 40
    missing: int = 4
    size: int = 24
    shared: int = 16
    slow_bytes: int = 4 * MIB  # per second
    pods: int = 40
    same: int = 128
    before: int = 10
    large: int = 64
    rounds: int = 5
    calls: int = 4000
    slots: int = 100_000


QUICK = Sizes(
    images=9, missing=1, size=2, shared=2, slow_bytes=MIB, pods=8, same=8, large=8, rounds=1, calls=400, slots=2000
)


class Phases:
    """When each pod was first seen to run, by the monotonic clock, as the API tells it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.running: dict[str, float] = {}
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self, names: set[str]) -> None:
        deadline = time.monotonic() + _LATE_SECONDS
        while not names <= set(self.running):
            if time.monotonic() > deadline:
                raise RuntimeError(f"after {_LATE_SECONDS} s these do not run: {names - set(self.running)}")
            time.sleep(0.1)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, _space, phase = line.strip().partition(" ")
            if phase == "Running":
                self.running.setdefault(name, time.monotonic())


class Bench:
    def __init__(self, made: PullLab, sizes: Sizes) -> None:
        self.made = made
        self.sizes = sizes

    def run(self) -> dict[str, Any]:
        distinct, same, critical = [], [], []
        for number in range(self.sizes.rounds):
            for arm in ARMS[number % len(ARMS) :] + ARMS[: number % len(ARMS)]:
                with self.armed(arm):
                    distinct.append({"round": number, "arm": arm, **self.distinct()})
                    say(_line("distinct", distinct[-1]))
                    same.append({"round": number, "arm": arm, **self.same()})
                    say(_line("one image", same[-1]))
            for order in (FIFO, PRIORITY):
                with self.proxied(max_in_flight=1, order=order) as proxy:
                    critical.append({"round": number, "order": order, **self.critical(proxy)})
                    say(f"{order}: {critical[-1]}")
        return {"distinct": distinct, "same": same, "critical": critical}

    @contextmanager
    def armed(self, arm: str) -> Iterator[None]:
        if arm in (HOST, JOIN):
            with self.proxied(max_in_flight=self.sizes.limit, join=arm == JOIN):
                yield
            return
        self.made.configure(self.made.metered(), most=self.sizes.limit if arm == PER_KUBELET else None)
        self.warm()
        yield

    def warm(self) -> None:
        """Until every kubelet, which has just begun, starts pods."""
        self.measured([Pod(f"warm-{node}", "warm", node) for node in self.made.nodes])

    @contextmanager
    def proxied(self, **settings: object) -> Iterator[PullProxy]:
        with pull_proxy(self.made.sockets / "proxy", self.made.metered(), **settings) as proxy:
            self.made.configure({node: proxy.socket(node) for node in self.made.nodes})
            self.warm()
            yield proxy

    def distinct(self) -> dict[str, Any]:
        """Pods of as many images, spread over the nodes. The first image is slow, the last are not there."""
        sizes, nodes = self.sizes, self.made.nodes
        self.made.front.manners["distinct-0"] = Manner(bytes_per_second=sizes.slow_bytes)
        names = [f"distinct-{number}" for number in range(sizes.images)]
        pods = [Pod(name, name, nodes[number % len(nodes)]) for number, name in enumerate(names)]
        return self.measured(pods, missing=set(names[-sizes.missing :]))

    def same(self) -> dict[str, Any]:
        """Pods of one image, on one node."""
        return self.measured([Pod(f"same-{number}", "same", self.made.nodes[0]) for number in range(self.sizes.pods)])

    def critical(self, proxy: PullProxy) -> dict[str, Any]:
        """How many pulls of large images came before that of a pod of kube-system, which was asked for when all of them were
        queued, and seconds from then until it runs. The first large one is held until all have come."""
        sizes, nodes = self.sizes, self.made.nodes
        large = [f"large-{number}" for number in range(sizes.before)]
        opened = self.made.front.hold(large)
        with self.phases() as phases:
            self.made.create([Pod(name, name, nodes[number % len(nodes)]) for number, name in enumerate(large)])
            _wait_for_queued(proxy, sizes.before - 1)
            self.made.create([Pod("critical", "critical", nodes[0], namespace="kube-system")])
            _wait_for_queued(proxy, sizes.before)
            opened.set()
            begun = time.monotonic()
            phases.wait({"critical"})
            order = [pull.image for pull in self.made.meter.pulls()]
            found = {
                "after": order.index(named("critical")) - 1,  # less the one that was held
                "seconds": round(phases.running["critical"] - begun, 3),
            }
            phases.wait(set(large))
        self.made.clean()
        return found

    def measured(self, pods: Sequence[Pod], *, missing: set[str] = frozenset()) -> dict[str, Any]:
        wanted = {pod.name for pod in pods} - missing
        with self.phases() as phases:
            begun = self.made.create(pods)
            phases.wait(wanted)
            times = sorted(phases.running[name] - begun for name in wanted)
        meter, front = self.made.meter, self.made.front
        found = {
            "most": meter.most(),
            "most_of_one": meter.most(by_runtime=True),
            "most_at_registry": front.in_flight_most(),
            "pulls": len(meter.pulls()),
            "requests": sum(len(front.asked(kind="manifests", method=method)) for method in ("HEAD", "GET")),
            "blobs": len(front.asked(kind="blobs")),
            "bytes": sum(one.sent for one in front.asked(kind="blobs")),
            "running": [round(one, 3) for one in times],
            "in_flight": [_span(pull, begun) for pull in meter.pulls()],
        }
        self.made.clean()
        return found

    @contextmanager
    def phases(self) -> Iterator[Phases]:
        lab = self.made.lab
        told = "jsonpath={.object.metadata.name} {.object.status.phase}{'\\n'}"
        argv = [f"{lab.directory}/bin/kubectl", "--kubeconfig", f"{lab.directory}/admin.kubeconfig", "get", "pods"]
        argv += ["-A", "-l", "of=pulls", "--watch", "--output-watch-events", "-o", told]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield Phases(process)
            finally:
                process.kill()


def _wait_for_queued(proxy: PullProxy, count: int) -> None:
    assert eventually(lambda: len(proxy.status()["queued"]) == count, seconds=_LATE_SECONDS), proxy.status()


def _span(pull: Pull, begun: float) -> list[float]:
    """Seconds after the beginning. One that goes on is tried again and again, as of a missing image."""
    ended = time.monotonic() if pull.ended is None else pull.ended
    return [round(pull.begun - begun, 3), round(ended - begun, 3)]


def _line(load: str, one: Mapping[str, Any]) -> str:
    seen = f"{one['most']} in flight ({one['most_of_one']} at one runtime, {one['most_at_registry']} at the registry)"
    asked = f"{one['pulls']} pulls, {one['requests']} requests for manifests, {one['bytes'] / MIB:.0f} MiB"
    return f"{one['arm']}, {load}: {seen}, {asked}; first pod after {one['running'][0]} s, last after {one['running'][-1]} s"


def stored(sizes: Sizes) -> list[Any]:
    shared = Layer("shared", sizes.shared * MIB)
    there = sizes.images - sizes.missing
    return [
        *(image(f"distinct-{number}", sizes.size * MIB, shared=(shared,), parts=2) for number in range(there)),
        image("same", sizes.same * MIB, parts=4),
        *(image(f"large-{number}", sizes.large * MIB, parts=2) for number in range(sizes.before)),
        *(image(name, MIB) for name in ("critical", "warm")),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help=f"{Sizes.rounds} by default")
    parser.add_argument("--quick", action="store_true", help="small, to try the program; nothing is written")
    arguments = parser.parse_args()
    base = QUICK if arguments.quick else Sizes()
    sizes = Sizes(**{**asdict(base), "rounds": arguments.rounds or base.rounds})
    signal.signal(signal.SIGTERM, interrupt)
    found: dict[str, Any] = {"machine": machine(), "sizes": asdict(sizes)}
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as name:
        alone, together = Path(name, "alone"), Path(name, "together")
        alone.mkdir()
        found.update(single(alone, sizes))
        with ExitStack() as undo:
            made = undo.enter_context(pull_lab("pullbench", together, stored(sizes), nodes=sizes.nodes))
            found["kubernetes"] = made.lab.record["kubernetes_version"]
            found.update(Bench(made, sizes).run())
    write_report(found, None if arguments.quick else RESULTS)


def single(place: Path, sizes: Sizes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["latency"] = pulls_single.latency(place, rounds=sizes.rounds, calls=sizes.calls)
    found["memory"] = pulls_single.memory(place)
    say(f"memory: {found['memory']}")
    found["slots"] = pulls_single.slots(place, pulls=sizes.slots)
    say(f"slots: {found['slots']}")
    return found


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; all that was made for it is removed")
