# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a call costs on each HTTP/2 stack that the pull proxy could have: `make bench-pulls-stacks`.

    direct             past the proxy
    relay              this checkout's proxy, which passes frames on
    relay of COMMIT    the proxy of another checkout (--beside DIRECTORY), to compare a change with the code before it
    grpc.aio           a server and a client of grpc.aio that pass calls on, without any limit of the proxy's

Two loads, all ways in turn in each round: ImageStatus, which is passed on, and PullImage of as many images, which the relay
answers itself and asks the runtime for over grpc.aio. The client writes headers as a kubelet does (HPACK with its table and
Huffman's code, a deadline and a trace of its own in each call). The runtime answers at once, and is one process of Python as
the client is: with 16 in flight these two are what the calls wait for. Measured are seconds of a call and of the proxy's
processor. Writes tests/bench/results/pulls_stacks.json and the table in docs/pull-proxy.md between its marks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hpack import Encoder

from tests.bench.lab import machine
from tests.bench.page import write_between_marks, write_results
from tests.bench.pulls_load import Calls
from tests.bench.rules_report import markdown, percentile
from tests.integration.cri import IMAGE_SERVICE, message, pull_request
from tests.integration.kube_proxy import eventually
from tests.integration.processes import IMPORTS, ROOT, running
from tests.integration.pull_proxy import PYTHON

RESULTS = ROOT / "tests/bench/results/pulls_stacks.json"
PAGE = ROOT / "docs/pull-proxy.md"
# By way, load and figure: one for each round, in seconds.
Figures = dict[str, dict[str, dict[str, list[float]]]]
DIRECT = "direct"
STATUS, PULL = "ImageStatus", "PullImage"
IN_FLIGHT = (1, 16)
_MAIN = "from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.main import main; main()"
_SERVED = "tests.bench.pulls_stacks_served"
_TICKS = os.sysconf("SC_CLK_TCK")


def kubelet_blocks(path: str) -> Iterator[bytes]:
    """Header blocks of one connection, as grpc-go writes them."""
    encoder, number = Encoder(), 0
    while True:
        yield encoder.encode(
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", path),
                (":authority", "localhost"),
                ("content-type", "application/grpc"),
                ("user-agent", "grpc-go/1.78.0"),
                ("te", "trailers"),
                ("grpc-timeout", f"{119999 - number % 10}m"),
                ("traceparent", f"00-{number * 7919:032x}-{number * 104729:016x}-01"),
            ]
        )
        number += 1


def requests(method: str) -> Iterator[bytes]:
    number = 0
    while True:
        image = f"registry.example/team/image:{number}"
        yield message({1: message({1: image})}) if method == STATUS else pull_request(image, pod=f"pod-{number}")
        number += 1


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Way:
    def __init__(self, name: str, socket: str, process: subprocess.Popen[bytes] | None) -> None:
        self.name = name
        self._socket = socket
        self._process = process

    def measure(self, method: str, calls: int, in_flight: int) -> dict[str, float]:
        before = self._used()
        argv = [
            sys.executable,
            "-m",
            "tests.bench.pulls_stacks",
            "load",
            self._socket,
            method,
            str(calls),
            str(in_flight),
        ]
        done = subprocess.run(argv, env={**os.environ, **IMPORTS}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{self.name}: {done.stderr}"
        taken = json.loads(done.stdout)
        return {
            "p50": percentile(taken, 50),
            "p99": percentile(taken, 99),
            "processor": (self._used() - before) / calls,
        }

    def _used(self) -> float:
        return processor_seconds(self._process.pid) if self._process else 0.0


def warm_calls(calls: int) -> int:
    return calls // 10


def load(socket: str, method: str, calls: int, in_flight: int) -> list[float]:
    with Calls(socket, kubelet_blocks(IMAGE_SERVICE + method), requests(method)) as client:
        client.make(warm_calls(calls), in_flight)
        return [round(seconds, 7) for seconds in client.make(calls, in_flight)]


@contextmanager
def relay(name: str, checkout: Path, place: Path, runtime: str) -> Iterator[Way]:
    place.mkdir()
    socket, config = f"{place}/s/proxy.sock", place / "config.json"
    config.write_text(
        json.dumps({"listeners": [{"socket": socket, "runtime": runtime, "name": "a"}], "max_in_flight": 0})
    )
    env = {"PYTHONPATH": str(checkout / ".build/collections"), "RUNTIME_DIRECTORY": f"{place}/run"}
    with running([PYTHON, "-c", _MAIN, "--config", str(config)], place / "log", env=env) as process:
        yield _ready(Way(name, socket, process), socket, place / "log")


@contextmanager
def passed_by_grpc(place: Path, runtime: str) -> Iterator[Way]:
    place.mkdir()
    argv = [PYTHON, "-m", _SERVED, "grpc", f"{place}/s", runtime]
    with running(argv, place / "log", env=IMPORTS) as process:
        yield _ready(Way("grpc.aio", f"{place}/s", process), f"{place}/s", place / "log")


def _ready(way: Way, socket: str, log: Path) -> Way:
    assert eventually(lambda: Path(socket).exists(), seconds=60), log.read_text(encoding="utf-8")
    return way


def measure(rounds: int, calls: int, beside: Path | None) -> Figures:
    figures: Figures = {}
    with ExitStack() as undo:
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="ballast-bench-")))
        runtime = f"{place}/runtime"
        undo.enter_context(running([PYTHON, "-m", _SERVED, "runtime", runtime], place / "log", env=IMPORTS))
        ways = [_ready(Way(DIRECT, runtime, None), runtime, place / "log")]
        ways.append(undo.enter_context(relay("relay", ROOT, place / "relay", runtime)))
        if beside:
            ways.append(undo.enter_context(relay(f"relay of {commit(beside)}", beside, place / "beside", runtime)))
        ways.append(undo.enter_context(passed_by_grpc(place / "grpc", runtime)))
        for number in range(rounds):
            for method in (STATUS, PULL):
                for in_flight in IN_FLIGHT:
                    for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
                        series = figures.setdefault(way.name, {}).setdefault(f"{method}, {in_flight} in flight", {})
                        for name, value in way.measure(method, calls, in_flight).items():
                            series.setdefault(name, []).append(round(value, 7))
    return figures


def commit(checkout: Path) -> str:
    argv = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def table(figures: Figures) -> str:
    """What each way adds to a call: median and range over the rounds of the difference to the direct way in each."""
    ways = [name for name in figures if name != DIRECT]
    lines = []
    for load_name, direct in figures[DIRECT].items():
        for key in ("p50", "processor") if load_name.endswith(" 1 in flight") else ("processor",):
            added = [
                [(through - past) * 1e3 for through, past in zip(figures[way][load_name][key], direct[key])]
                for way in ways
            ]
            texts = [f"{statistics.median(one):.3f} ms ({min(one):.3f} to {max(one):.3f})" for one in added]
            lines.append([f"{load_name}, {key}", *texts])
    return "\n".join(markdown(["added to a call", *ways], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument(
        "--beside", type=Path, metavar="DIRECTORY", help="another checkout, with its .build/collections"
    )
    arguments = parser.parse_args()
    figures = measure(arguments.rounds, arguments.calls, arguments.beside)
    print(table(figures))
    write_results(RESULTS, {"machine": machine(), "calls": arguments.calls, "seconds": figures})
    write_between_marks(PAGE, "pulls-stacks", table(figures), RESULTS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        way, called, *numbers = sys.argv[2:]
        print(json.dumps(load(way, called, *map(int, numbers))))
    else:
        main()
