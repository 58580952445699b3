# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The thread in which the reconciler works: with a cluster that it follows, and anew when settings or credentials are others."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Optional

from ..._core.agent.log import Log
from ..._core.errors import BallastError
from ..._core.host import Host
from ..._core.kubeapi import Api
from ..following import backoff
from ..lease import Leases
from ..limits import limits_of
from ..machine import machine_of
from .access import read_credentials
from .choice import Known
from .loop import Counts, Parts, Reconciler, Stopped, Uncounted, WatchfulCluster
from .metrics import View
from .settings import Settings
from .status import Notes


class Worker:
    """`run` in a thread of its own; the rest from any."""

    def __init__(self, settings: Settings, host: Host, log: Log) -> None:
        self.counts: Counts = Uncounted()
        self._wanted = settings
        self._effective = settings
        self._host = host
        self._log = log
        self._ending = threading.Event()
        self._stir = threading.Event()  # ends a wait that is not one for the cluster
        self._cluster: Optional[WatchfulCluster] = None
        self._reconciler: Optional[Reconciler] = None
        self._known: Mapping[str, Known] = {}
        self._calls = 0  # of those before the present one
        self._trouble = ""

    def run(self) -> None:
        """Until `end`. Raises only what is a fault of ours."""
        failures = 0
        while not self._ending.is_set():
            self._effective = self._wanted
            try:
                self._reconcile(self._effective)
                failures += 1  # credentials that count no more, which may be renewed
            except Stopped:
                failures = 0
            except BallastError as error:
                failures += 1
                self._failed(error)
            self._stir.wait(backoff(failures) if failures else 0)
            self._stir.clear()

    def end(self) -> None:
        self._ending.set()
        self._wake()

    def take(self, settings: Settings) -> None:
        """Work with these from now on. What is under way is ended first, and so left that nothing is oversold."""
        self._wanted = settings
        self._wake()

    @property
    def settings(self) -> Settings:
        """Those that are in effect."""
        return self._effective

    def view(self) -> View:
        reconciler = self._reconciler
        return View() if reconciler is None else reconciler.view()

    def notes(self) -> Notes:
        reconciler = self._reconciler
        if reconciler is None:
            return Notes(problems=(self._trouble,) if self._trouble else (), api_calls=self._calls)
        return reconciler.notes(before=self._calls)

    def calls(self) -> int:
        return self.notes().api_calls

    def _reconcile(self, settings: Settings) -> None:
        api = Api(self._host, read_credentials(settings, self._host))
        cluster = WatchfulCluster(
            api,
            self._host,
            namespace=settings.namespace,
            reserve=settings.reserved,
            machine=machine_of(settings.request, self._host),
        )
        cluster.until = lambda: self._ending.is_set() or self._wanted is not settings
        self._cluster = cluster
        leases = Leases(api, self._host, namespace=settings.namespace)
        limits = limits_of(settings.request, self._host)
        with cluster:
            parts = Parts(cluster, leases, limits, self._host, self._log, self.counts)
            reconciler = Reconciler(settings, parts, self._known)
            self._reconciler, self._trouble = reconciler, ""
            self._log.event("following", nodes=len(cluster.fleet().nodes))
            try:
                reconciler.run()
            finally:
                self._calls += reconciler.calls
                self._known = reconciler.known
                self._reconciler = None

    def _failed(self, error: BallastError) -> None:
        self.counts.failed(error.id)
        if error.in_one_line != self._trouble:
            self._trouble = error.in_one_line
            self._log.event("problem", id=error.id, text=self._trouble)

    def _wake(self) -> None:
        self._stir.set()
        cluster = self._cluster
        if cluster is not None:
            cluster.ring()
