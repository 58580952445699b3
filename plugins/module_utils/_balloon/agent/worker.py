# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler's thread: it follows a cluster, and starts again with new settings or credentials."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Optional

from ..._agent.log import Log
from ..._core.host.host import Host
from ..._core.kube.client import Api
from ..._core.kube.informer import backoff
from ..._core.text.errors import BallastError
from ..cluster.facts import SIZES
from ..cluster.lease import Leases
from ..deployment.objects import namespace_of
from ..resize.limits import limits_of
from ..resize.machine import machine_of
from .access import read_credentials
from .choice import Known
from .loop import Counts, Parts, Reconciler, Stopped, Uncounted, WatchfulCluster
from .metrics import View
from .settings import Settings
from .status import Notes


class Worker:
    """`run` has its own thread; any thread may call the other methods."""

    def __init__(self, settings: Settings, host: Host, log: Log) -> None:
        self.counts: Counts = Uncounted()
        self._latest = settings
        self._effective = settings
        self._host = host
        self._log = log
        self._ending = threading.Event()
        self._stir = threading.Event()  # ends the wait between two connections
        self._cluster: Optional[WatchfulCluster] = None
        self._reconciler: Optional[Reconciler] = None
        self._known: Mapping[str, Known] = {}
        self._calls = 0  # of earlier reconcilers
        self._trouble = ""

    def run(self) -> None:
        """Run until `end` is called. Raises only defects of the program."""
        failures = 0
        while not self._ending.is_set():
            self._effective = self._latest
            try:
                self._reconcile(self._effective)
                failures += 1  # the credentials expired, and may be renewed
            except Stopped:
                failures = 0
            except BallastError as error:
                failures += 1
                self._note_failure(error)
            self._stir.wait(backoff(failures) if failures else 0)
            self._stir.clear()

    def end(self) -> None:
        """Has `run` return. Actions under way end first."""
        self._ending.set()
        self._wake()

    def take(self, settings: Settings) -> None:
        """Work with these settings from now on. Actions under way end first, and leave no host overcommitted."""
        self._latest = settings
        self._wake()

    @property
    def settings(self) -> Settings:
        """The settings in effect."""
        return self._effective

    def view(self) -> View:
        """The view of the present reconciler; an empty one while there is none."""
        reconciler = self._reconciler
        return View() if reconciler is None else reconciler.view()

    def notes(self) -> Notes:
        """As `view`. While there is no reconciler, `problems` says why."""
        reconciler = self._reconciler
        if reconciler is None:
            return Notes(problems=(self._trouble,) if self._trouble else (), api_calls=self._calls)
        return reconciler.notes(before=self._calls)

    def calls(self) -> int:
        """Requests to the API server since the start."""
        return self.notes().api_calls

    def _reconcile(self, settings: Settings) -> None:
        api = Api(self._host, read_credentials(settings, self._host))
        namespace = settings.namespace or namespace_of(api, SIZES) or SIZES.namespace
        cluster = WatchfulCluster(
            api,
            self._host,
            namespace=namespace,
            reserve=settings.reserved,
            machine=machine_of(settings.request, self._host),
        )
        cluster.until = lambda: self._ending.is_set() or self._latest is not settings
        self._cluster = cluster
        leases = Leases(api, self._host, namespace=namespace)
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

    def _note_failure(self, error: BallastError) -> None:
        self.counts.count_error(error.id)
        if error.in_one_line != self._trouble:
            self._trouble = error.in_one_line
            self._log.event("problem", id=error.id, text=self._trouble)

    def _wake(self) -> None:
        self._stir.set()
        cluster = self._cluster
        if cluster is not None:
            cluster.ring()
