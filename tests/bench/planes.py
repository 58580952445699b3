# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast control planes start, what memory they need and how fast they answer: `make bench-planes`.

    started    from the start of the first process to the first yes of /readyz, which says that RBAC is bootstrapped: with an
               empty data directory, and again with the data there
    idle       resident memory (VmRSS) of each process, when nothing has been asked for a while
    load       16 clients create ConfigMaps and get them, then objects of a CRD: requests per second, p50 and p99

hyper-mini, generic (separate processes) and full in turn, each turn on a new control plane. Writes
tests/bench/results/planes.json (raw figures and the machine), docs/planes-bench.svg, and the table in docs/benchmarks/control-plane.md
between its marks. The clients are a program in Go (planes_load): one in Python would be slower than what it measures.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from tests.bench.lab import machine
from tests.bench.planes_report import write_report
from tests.bench.rules import interrupt, say
from tests.integration.plane_lab import VERSION, Plane, binaries, place

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/planes.json"
LOAD = ROOT / "tests/bench/planes_load"
PROFILES = ("hyper-mini", "generic", "full")
CLIENTS = 16
GROUP, NAMESPACE = "bench.ballast.dev", "default"
_LATE_SECONDS = 120


@dataclass(frozen=True)
class Sizes:
    turns: int = 3
    creates: int = 4000
    gets: int = 16000
    idle_seconds: int = 30
    settle_seconds: int = 10  # for a new CRD: its OpenAPI documents are made meanwhile


QUICK = Sizes(turns=1, creates=200, gets=400, idle_seconds=3, settle_seconds=2)


class Ready:
    """When /readyz of an address first said yes, by the clock that the starts of processes are told in."""

    def __init__(self, address: str, port: int) -> None:
        self._at = (address, port)
        self._over = threading.Event()
        self.at = 0.0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def __enter__(self) -> Ready:
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        # Its authority is not made yet when this begins, and nothing is told to it.
        context = ssl._create_unverified_context()
        connection = HTTPSConnection(*self._at, timeout=5, context=context)
        while not self._over.wait(0.01):
            try:
                connection.request("GET", "/readyz")
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException):
                connection.close()
                continue
            if answer.status == 200:
                self.at = time.clock_gettime(time.CLOCK_BOOTTIME)
                return


def started(pids: Mapping[str, int | None]) -> float:
    """When the first of the processes was started, in seconds since boot (proc(5))."""
    ticks = os.sysconf("SC_CLK_TCK")
    texts = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") for pid in pids.values() if pid is not None]
    return min(int(text.rpartition(")")[2].split()[19]) / ticks for text in texts)


def ready_seconds(plane: Plane) -> float:
    """Start the plane; from its first process to its first yes."""
    with Ready(plane.address, int(str(plane.params["secure_port"]))) as ready:
        plane.run()
    assert ready.at, "it runs, and /readyz never said yes"
    return round(ready.at - started(plane.pids()), 3)


def measure(profile: str, sizes: Sizes, program: str, bin_dir: str) -> dict[str, Any]:
    with place(profile, bin_dir=bin_dir) as plane:
        fresh = ready_seconds(plane)
        time.sleep(sizes.idle_seconds)
        idle = {row["name"]: row["rss_bytes"] for row in plane.report()["components"]}
        found: dict[str, Any] = {"ready_fresh": fresh, "idle_rss_bytes": idle}
        found["configmaps"] = load(
            plane, sizes, program, f"/api/v1/namespaces/{NAMESPACE}/configmaps", body={"data": {"text": "x" * 100}}
        )
        make_crd(plane)
        time.sleep(sizes.settle_seconds)
        path = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets"
        spec = {"spec": {"size": 3, "text": "x" * 100}}
        found["widgets"] = load(plane, sizes, program, path, body=spec, api_version=f"{GROUP}/v1", kind="Widget")
        found["loaded_rss_bytes"] = {row["name"]: row["rss_bytes"] for row in plane.report()["components"]}
        plane.run(state="stopped")
        found["ready_again"] = ready_seconds(plane)
    return found


def load(
    plane: Plane,
    sizes: Sizes,
    program: str,
    path: str,
    *,
    body: object,
    api_version: str = "v1",
    kind: str = "ConfigMap",
) -> dict[str, Any]:
    options = {
        "server": plane.record.endpoint,
        "ca": plane.pki("ca.crt"),
        "cert": plane.pki("admin.crt"),
        "key": plane.pki("admin.key"),
        "path": path,
        "api-version": api_version,
        "kind": kind,
        "body": json.dumps(body),
        "clients": str(CLIENTS),
        "creates": str(sizes.creates),
        "gets": str(sizes.gets),
    }
    argv = [program, *(f"-{name}={value}" for name, value in options.items())]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def make_crd(plane: Plane) -> None:
    """Served when this returns."""
    properties = {"size": {"type": "integer"}, "text": {"type": "string"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    answer = plane.ask("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "POST", body)
    assert answer.ok, answer.body
    deadline = time.monotonic() + _LATE_SECONDS
    while not plane.ask(f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets").ok:
        assert time.monotonic() < deadline, "the CRD is not served"
        time.sleep(0.2)


@contextmanager
def load_program() -> Iterator[str]:
    """Built anew: it is small, and needs nothing but Go itself."""
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as place_:
        path = f"{place_}/planes-load"
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
        subprocess.run(["go", "build", "-o", path, "."], cwd=LOAD, env=environment, check=True, timeout=900)
        yield path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short turn, to try the program; nothing is written")
    parser.add_argument("--profiles", nargs="+", default=list(PROFILES), choices=PROFILES)
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else Sizes()
    signal.signal(signal.SIGTERM, interrupt)
    found: dict[str, Any] = {"machine": machine(), "kubernetes": VERSION, "sizes": asdict(sizes), "clients": CLIENTS}
    bin_dir = binaries(VERSION, all_in_one=True)  # of all three
    turns: dict[str, list[dict[str, Any]]] = {profile: [] for profile in arguments.profiles}
    with load_program() as program:
        for turn in range(sizes.turns):
            # Each is first, middle and last in some turn.
            for number in range(len(arguments.profiles)):
                profile = arguments.profiles[(turn + number) % len(arguments.profiles)]
                turns[profile].append(measure(profile, sizes, program, bin_dir))
                say(f"turn {turn + 1}, {profile}: {turns[profile][-1]}")
    whole = set(arguments.profiles) == set(PROFILES)
    write_report({**found, "turns": turns}, RESULTS if whole and not arguments.quick else None)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        try:
            main()
        except KeyboardInterrupt:
            sys.exit("interrupted; all that was made for it is removed")
