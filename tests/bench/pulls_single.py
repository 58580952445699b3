# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the pull proxy costs by itself: latency, memory, and slots that it loses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.lab import pss_bytes
from tests.bench.pulls_runtime import COUNT
from tests.integration.containerds import containerd
from tests.integration.cri import Images, fields, images, pull_request
from tests.integration.kube_proxy import eventually
from tests.integration.processes import IMPORTS, running
from tests.integration.pull_place import clients, named
from tests.integration.pull_proxy import PullProxy, pull_proxy
from tests.integration.registry import image, registry
from tests.integration.registry_front import front

LISTENERS = ("a", "b", "c")
IN_FLIGHT = (1, 16)
DIRECT, PROXIED = "direct", "proxy"
LIMIT = 8
QUEUED = 1000
_KUBELETS = 10  # connections that the queued ones come over
_SECONDS = 3600


def latency(place: Path, *, rounds: int, calls: int) -> dict[str, Any]:
    """Seconds of ImageStatus at a real containerd, in turn past the proxy and through it, by calls in flight."""
    found: dict[str, list[dict[str, list[float]]]] = {}
    with ExitStack() as undo:
        served = undo.enter_context(registry(place / "registry"))
        served.push(image("one", 1000))
        runtime = undo.enter_context(containerd("bench-pulls", place / "c"))
        undo.enter_context(front(served.port, {runtime.namespace: "c"}))
        with images(runtime.socket) as here:
            here.pull(named("one"))
        proxy = undo.enter_context(pull_proxy(place / "latency", {"c": runtime.socket}, max_in_flight=LIMIT))
        sockets = {DIRECT: runtime.socket, PROXIED: proxy.socket("c")}
        for in_flight in IN_FLIGHT:
            for _number in range(rounds):
                one = {
                    way: _load("latency", str(calls), str(in_flight), named("one"), socket)
                    for way, socket in sockets.items()
                }
                found.setdefault(str(in_flight), []).append(one)
    return found


def memory(place: Path) -> dict[str, int]:
    """PSS of the proxy in bytes: with its listeners and nobody there, and with pulls queued."""
    with ExitStack() as undo:
        proxy, sockets, _runtime = _with_fake_runtime(undo, place / "memory", limit=1)
        assert proxy.process is not None
        time.sleep(5)
        idle = pss_bytes(proxy.process.pid)
        kubelets = undo.enter_context(clients((sockets * _KUBELETS)[:_KUBELETS]))
        pulls = [
            kubelets[number % _KUBELETS].pulling(pull_request(f"hold-0-{number}", pod=f"pod-{number}"))
            for number in range(QUEUED + 1)
        ]
        assert eventually(lambda: len(proxy.status()["queued"]) == QUEUED, seconds=120)
        queued = pss_bytes(proxy.process.pid)
        for pull in pulls:
            pull.cancel()
        assert eventually(lambda: not proxy.status()["queued"], seconds=120)
        return {"idle": idle, "queued": queued, "after": pss_bytes(proxy.process.pid)}


def slots(place: Path, *, pulls: int, seed: int = 1) -> dict[str, Any]:
    """Slots that are gone after so many pulls, of which some fail and some are cancelled."""
    with ExitStack() as undo:
        proxy, sockets, runtime = _with_fake_runtime(undo, place / "slots", limit=LIMIT)
        assert proxy.process is not None
        begun = time.monotonic()
        outcomes = _load("slots", str(pulls), str(seed), *sockets)
        seconds = time.monotonic() - begun
        assert eventually(lambda: not proxy.status()["in_flight"], seconds=60), "a pull that nobody waits for goes on"
        before = _counted(runtime)
        (kubelet,) = undo.enter_context(clients(sockets[:1]))
        held = [kubelet.pulling(pull_request(f"hold-0-{number}")) for number in range(2 * LIMIT)]
        eventually(lambda: _counted(runtime)["now"] == LIMIT, seconds=30)
        time.sleep(1)
        after = _counted(runtime)
        for pull in held:
            pull.cancel()
        return {
            "pulls": pulls,
            "seconds": round(seconds, 1),
            "outcomes": outcomes,
            "at_runtime": before["total"],
            "most": after["most"],
            "limit": LIMIT,
            "lost": LIMIT - after["now"],
            "left_in_flight": before["now"],
            "pss": pss_bytes(proxy.process.pid),
        }


def _with_fake_runtime(undo: ExitStack, place: Path, *, limit: int) -> tuple[PullProxy, list[str], Images]:
    place.mkdir()
    socket = f"{place}/runtime.sock"
    undo.enter_context(running([sys.executable, "-m", "tests.bench.pulls_runtime", socket], place / "log", env=IMPORTS))
    assert eventually(lambda: Path(socket).exists(), seconds=60)
    proxy = undo.enter_context(pull_proxy(place / "proxy", dict.fromkeys(LISTENERS, socket), max_in_flight=limit))
    return proxy, [proxy.socket(name) for name in LISTENERS], undo.enter_context(images(socket))


def _counted(runtime: Images) -> dict[str, int]:
    told = fields(runtime.call(COUNT))
    numbers = {name: told.get(number, [0])[-1] for number, name in enumerate(("now", "most", "total"), start=1)}
    return {name: int(number) for name, number in numbers.items() if not isinstance(number, bytes)}


def _load(*words: str) -> Any:
    argv: Sequence[str] = [sys.executable, "-m", "tests.bench.pulls_load", *words]
    env = {**os.environ, **IMPORTS}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
