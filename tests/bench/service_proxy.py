# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a node takes to follow its cluster, with our service proxy and with kube-proxy: `make bench-service-proxy`.

    start     from no rules to all: until a packet to every Service that is asked is answered
    calm      one change a second: from the request to the API server to the first packet that meets it
    busy      a hundred changes a second, the same, and the processor seconds of the program
    flush     another program flushes the ruleset: until packets are answered again
    large     50,000 Services: start and changes, ours alone, unless --large-peer
    soak      with --soak MINUTES: a hundred changes a second, memory over time, and what the kernel differs in at the end; ours alone

Both run on this kernel, each in a network namespace, ours and kube-proxy in turn, and follow the same API server, which holds
the objects of a real cluster. Writes tests/bench/results/service_proxy.json (raw figures and the machine),
docs/service-proxy-bench.svg, and the table in docs/service-proxy.md between its marks.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench import rules_cluster as cluster
from tests.bench import service_proxy_soak as soak
from tests.bench.lab import machine
from tests.bench.rules import binaries, interrupt, tools
from tests.bench.rules_nodes import Node, node
from tests.bench.service_proxy_load import Changes, Measured, Packets, load, packets
from tests.bench.service_proxy_programs import OURS, PEER, TABLES, Contenders, Running
from tests.bench.service_proxy_report import write_report
from tests.bench.stored_services import store
from tests.integration.kube_proxy import NODE, Api, control_plane

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/service_proxy.json"
CALM, BUSY = 1.0, 100.0  # changes a second
START_SECONDS = 600.0
SAMPLES = 64  # Services that are asked whether the rules are in force


@dataclass(frozen=True)
class Sizes:
    services: int = 10000
    large: int = 50000
    starts: int = 3
    calm_seconds: float = 60
    busy_seconds: float = 300
    flush_seconds: float = 60  # so long a repair is waited for
    large_changes: int = 20
    soak_minutes: float = 0


class Bench:
    def __init__(self, api: Api, kube_proxy: str, place: Path, sizes: Sizes) -> None:
        self.sizes = sizes
        self.api = api
        self.loader = cluster.Loader(api)
        self.contenders = Contenders(kube_proxy, api.kubeconfig(f"nodes/{NODE}/kube-proxy"), place / "programs")
        self.addresses = iter(f"10.97.249.{last}" for last in range(20, 250))
        self.changes = Changes(sizes.services)

    def parts(self, *, large_peer: bool) -> Iterator[dict[str, Any]]:
        """One after the other, so that a run that is cut off keeps those that it had done."""
        sizes = self.sizes
        self.api.create(cluster.node())
        begun = time.monotonic()
        self.loader.create(list(cluster.numbered(0, sizes.services)))
        say(f"{sizes.services} Services are in the API after {time.monotonic() - begun:.0f} s")
        yield {"main": self.rounds((OURS, PEER), sizes.starts)}
        if sizes.soak_minutes:
            yield {"soak": self.soak()}
        if sizes.large:
            store(self.api, list(cluster.numbered(sizes.services, sizes.large)))
            self.changes = Changes(sizes.large)
            yield {"large": self.large((OURS, PEER) if large_peer else (OURS,))}

    def rounds(self, who: tuple[str, ...], starts: int) -> dict[str, Any]:
        found: dict[str, Any] = {one: {"starts": []} for one in who}
        for number in range(starts):
            for one in who:
                with self.started(one, self.sizes.services) as (made, running, asked, seconds):
                    used = running.usage()
                    found[one]["starts"].append({"seconds": seconds, **used._asdict()})
                    say(f"{one}: start {seconds} s, {used}")
                    if number == starts - 1:
                        found[one].update(self.phases(one, made, running, asked))
        return found

    def phases(self, who: str, made: Node, running: Running, asked: Packets) -> dict[str, Any]:
        sizes = self.sizes
        found = {
            "calm": self.changing(running, asked, rate=CALM, seconds=sizes.calm_seconds, ask_every=1),
            "busy": self.changing(running, asked, rate=BUSY, seconds=sizes.busy_seconds, ask_every=10),
        }
        found["flush"] = {"seconds": self.flush(made, asked)}
        say(f"{who}: flush {found['flush']}")
        return found

    def changing(
        self, running: Running, asked: Packets, *, rate: float, seconds: float, ask_every: int
    ) -> dict[str, Any]:
        before = running.usage()
        measured = load(self.loader, self.changes, asked, rate=rate, seconds=seconds, ask_every=ask_every)
        return self.record(measured, before.processor, running)

    @staticmethod
    def record(measured: Measured, processor_before: float, running: Running) -> dict[str, Any]:
        used = running.usage()
        found = {**measured._asdict(), **used._asdict(), "processor": round(used.processor - processor_before, 2)}
        say(str({key: value for key, value in found.items() if key not in ("api", "packet")}))
        return found

    def flush(self, made: Node, asked: Packets) -> float | None:
        begun = time.monotonic()
        made.host.run(["nft", "flush", "ruleset"], timeout=60)
        return rounded(asked.until_all_answer(self.samples(self.sizes.services), begun, self.sizes.flush_seconds))

    def large(self, who: tuple[str, ...]) -> dict[str, Any]:
        found = {}
        for one in who:
            with self.started(one, self.sizes.large) as (_made, running, asked, seconds):
                used = running.usage()
                changes = self.changing(running, asked, rate=CALM, seconds=self.sizes.large_changes, ask_every=1)
                found[one] = {"starts": [{"seconds": seconds, **used._asdict()}], "calm": changes}
        return found

    def soak(self) -> dict[str, Any]:
        with self.started(OURS, self.sizes.services) as (made, running, asked, _seconds):
            changes = Changes(self.sizes.services, counts=range(1, 7), seed=2)
            seconds = 60 * self.sizes.soak_minutes
            with soak.sampled(running) as samples:
                measured = load(self.loader, changes, asked, rate=BUSY, seconds=seconds, ask_every=10)
            found = self.record(measured, samples[0].processor, running)
            differences = soak.differences(self.contenders.kubeconfig, made)
        say(f"soak: {differences} operations differ")
        return {**found, "samples": [sample._asdict() for sample in samples], "differences": differences}

    @contextmanager
    def started(self, who: str, services: int) -> Iterator[tuple[Node, Running, Packets, float]]:
        """A node where the program runs and all rules are in force, and the seconds that it took."""
        with ExitStack() as undo:
            made = undo.enter_context(node(f"sp-{who}", address=next(self.addresses), traffic=True))
            # Who asks before there are rules learns at once that nobody answers, each time, and asks again.
            made.host.run(["sysctl", "-qw", "net.ipv4.icmp_ratelimit=0"], timeout=10)
            asked = undo.enter_context(packets(made))
            running = undo.enter_context(self.contenders.running(who, made.name))
            seconds = rounded(asked.until_all_answer(self.samples(services), running.begun, START_SECONDS))
            if seconds is None:
                raise RuntimeError(f"{who} does not serve all Services after {START_SECONDS} s: see its log")
            self.check_complete(who, made, services)
            yield made, running, asked, seconds

    @staticmethod
    def samples(services: int) -> list[int]:
        return sorted({number * (services - 1) // (SAMPLES - 1) for number in range(SAMPLES)})

    @staticmethod
    def check_complete(who: str, made: Node, services: int) -> None:
        """Each Service has its cluster IP in the table."""
        held = made.host.run(["nft", "list", "table", "ip", TABLES[who]], timeout=300, limit=2**30).stdout
        missing = [number for number in range(services) if cluster.cluster_ip(number) not in held]
        if missing:
            raise RuntimeError(f"{who}: {len(missing)} Services are not in the kernel, the first is {missing[0]}")


def rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kubernetes", default="1.37.2", help="version of kube-proxy; the newest cached one where that is not"
    )
    parser.add_argument("--services", type=int, default=Sizes.services)
    parser.add_argument("--large", type=int, default=Sizes.large, metavar="SERVICES", help="0: leave that row out")
    parser.add_argument(
        "--large-peer", action="store_true", help="kube-proxy too with so many Services, which takes minutes"
    )
    parser.add_argument("--starts", type=int, default=Sizes.starts)
    parser.add_argument(
        "--busy-seconds", type=float, default=Sizes.busy_seconds, help="length of the hundred changes a second"
    )
    parser.add_argument("--soak", type=float, default=0, metavar="MINUTES")
    parser.add_argument("--quick", action="store_true", help="a few Services, to try the program; nothing is written")
    arguments = parser.parse_args()
    sizes = Sizes(
        services=arguments.services,
        large=arguments.large,
        starts=arguments.starts,
        busy_seconds=arguments.busy_seconds,
        soak_minutes=arguments.soak,
    )
    if arguments.quick:
        sizes = Sizes(200, 400, 1, calm_seconds=5, busy_seconds=5, flush_seconds=5, large_changes=3, soak_minutes=0.1)
    bin_dir, version = binaries(arguments.kubernetes)
    signal.signal(signal.SIGTERM, interrupt)
    with ExitStack() as undo:
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="ballast-bench-")))
        found: dict[str, Any] = {"machine": machine(), "kubernetes": version, "tools": tools(), "sizes": asdict(sizes)}
        api = undo.enter_context(control_plane(version, bin_dir, place))
        bench = Bench(api, f"{bin_dir}/kube-proxy", place, sizes)
        undo.callback(bench.loader.close)
        for part in bench.parts(large_peer=arguments.large_peer):
            found.update(part)
            write_report(found, None if arguments.quick else RESULTS)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; all that was made for it is removed")
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))
