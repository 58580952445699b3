# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Making one program: build, download or take it, ask it for its version, put it into its lot."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .._core.errors import HostError
from .._core.events import Progress
from .._core.host import Host
from . import golang
from .desired import GO, RELEASE, Desired, Lot
from .manifest import add_program
from .messages import MESSAGES
from .release import Downloads

_TELL_EVERY = 5.0  # seconds between two signs of life of a build
_VERSION_SECONDS = 20
_VERSION = re.compile(r"v?\d+\.\d+\.\d+[-+.\w]*")


class Maker:
    """The work of one run. It may use the cache's work directory, since the engine holds the lock while steps are done."""

    def __init__(self, desired: Desired, progress: Progress) -> None:
        self.desired = desired
        self.progress = progress
        self.work = os.path.join(desired.state_dir, "work")
        self._lots = {desired.path(lot, name): lot for lot in desired.lots for name in lot.programs}
        self._downloads: dict[str, Downloads] = {}

    def make(self, host: Host, path: str) -> None:
        lot, name = self._lots[path], os.path.basename(path)
        start = host.monotonic()
        self.clear(host)
        host.make_directory(self.work)
        staged = os.path.join(self.work, name)
        with self._telling(host, name, start) as tell:
            self._stage(host, lot, name, to=staged, tell=tell)
        version = self._version(host, lot, name, staged)
        data = host.read(staged) or b""
        self.clear(host)  # before the record, after which no run would come by here again
        seconds = host.monotonic() - start
        program = add_program(host, path, data, recipe=lot.recipe, version=version, seconds=seconds)
        self.progress.done(name, f"{version}, {program.size / 2**20:.0f} MiB, {seconds:.1f} s")

    def clear(self, host: Host) -> None:
        """Remove what this run, or a killed one before it, left half-made."""
        host.remove_tree(self.work)

    def _stage(self, host: Host, lot: Lot, name: str, *, to: str, tell: _Telling) -> None:
        if lot.source == GO:
            package = lot.family.component(name).package
            tell.text = "fetching Go modules"
            golang.fetch(
                host,
                self.desired.go,
                folder=lot.origin,
                package=package,
                name=name,
                version=lot.version,
                environment=self.desired.environment,
            )
            tell.text = "compiling"
            golang.build(
                host,
                self.desired.go,
                folder=lot.origin,
                family=lot.family,
                version=lot.version,
                name=name,
                to=to,
                environment=self.desired.environment,
            )
        elif lot.source == RELEASE:
            tell.text = "downloading"
            host.write(to, self._download(host, lot, name), mode=0o755)
        else:
            host.write(to, host.read(os.path.join(lot.origin, name)) or b"", mode=0o755)

    def _download(self, host: Host, lot: Lot, name: str) -> bytes:
        downloads = self._downloads.get(lot.directory)
        if downloads is None:
            downloads = Downloads(
                host, checksums=self.desired.checksums, environment=self.desired.environment, work=self.work
            )
            self._downloads = {lot.directory: downloads}  # an archive need not stay in memory for the next lot
        return downloads.program(
            lot.family, name=name, version=lot.version, base=lot.origin, architecture=golang.architecture()
        )

    def _version(self, host: Host, lot: Lot, name: str, staged: str) -> str:
        """What the program calls its version. It has to be the one asked for, except from a given path, which asks for none."""
        argv = [staged, *lot.family.component(name).version_args]
        needs = lot.family.shows.format(version=lot.version) if lot.source == GO else lot.version
        try:
            done = host.run(argv, timeout=_VERSION_SECONDS)
        except HostError as error:  # it failed, or it is no program of this machine's architecture
            raise MESSAGES.error("binaries-version-output", found=error.found, name=name, needs=needs) from error
        output = done.stdout + done.stderr  # the CNI plugins use stderr
        if needs not in output:
            raise MESSAGES.error("binaries-version-output", found=output.strip()[:200], name=name, needs=needs)
        match = _VERSION.search(output)
        return match[0] if match else "unknown"

    @contextmanager
    def _telling(self, host: Host, name: str, start: float) -> Iterator[_Telling]:
        """Says every few seconds what a long step is doing and since when."""
        telling = _Telling()
        over = threading.Event()

        def tell() -> None:
            while not over.wait(_TELL_EVERY):
                self.progress.waiting(name, f"{telling.text}, {host.monotonic() - start:.0f} s")

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield telling
        finally:
            over.set()
            thread.join()


class _Telling:
    text = "preparing"
