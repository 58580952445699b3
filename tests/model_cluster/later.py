# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One thread that does what is due, when it is due."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Later:
    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._ready = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def call(self, what: Callable[[], None], *, after: float) -> None:
        with self._ready:
            heapq.heappush(self._due, (time.monotonic() + after, next(self._number), what))
            self._ready.notify()

    def stop(self) -> None:
        with self._ready:
            self._ended = True
            self._ready.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._ended and (not self._due or self._due[0][0] > time.monotonic()):
                    self._ready.wait(max(0.0, self._due[0][0] - time.monotonic()) if self._due else None)
                if self._ended:
                    return
                _at, _number, what = heapq.heappop(self._due)
            what()
