# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes one binary: compiles, downloads or copies it, checks its version, and adds it to its build."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .._core.engine.events import Progress
from .._core.host.bounded import read_pieces
from .._core.host.host import PROGRAM_LIMIT, Host
from .._core.text.errors import HostError
from . import golang
from .manifest import add_program
from .messages import MESSAGES
from .release import Downloads
from .request import GO, RELEASE, BinariesRequest, Build

_REPORT_EVERY = 5.0  # seconds between two progress reports of a build
_VERSION_SECONDS = 20
_VERSION = re.compile(r"v?\d+\.\d+\.\d+[-+.\w]*")


class Maker:
    """Makes the binaries of one run. The caller holds the engine's lock, so it may use the cache's work directory."""

    def __init__(self, desired: BinariesRequest, progress: Progress) -> None:
        self.desired = desired
        self.progress = progress
        self.work = os.path.join(desired.state_dir, "work")
        self._builds = {desired.path(build, name): build for build in desired.builds for name in build.programs}
        self._downloads: dict[str, Downloads] = {}

    def make(self, host: Host, path: str) -> None:
        """Make the binary at `path`, one of the request's. It is recorded last, so a killed run leaves none that is
        incomplete."""
        build, name = self._builds[path], os.path.basename(path)
        start = host.monotonic()
        self.clear(host)
        host.make_directory(self.work)
        staged = os.path.join(self.work, name)
        with self._reporting(name) as activity:
            self._stage(host, build, name, to=staged, activity=activity)
        version = self._version(host, build, name, staged)
        data = host.read(staged, limit=PROGRAM_LIMIT) or b""
        self.clear(host)  # before the binary is recorded, as no later run would remove them
        seconds = host.monotonic() - start
        program = add_program(host, path, data, recipe=build.recipe, version=version, seconds=seconds)
        self.progress.done(name, f"{version}, {program.size / 2**20:.0f} MiB, {seconds:.1f} s")

    def clear(self, host: Host) -> None:
        """Remove unfinished files of this run, or of an earlier killed one."""
        host.remove_tree(self.work)

    def _stage(self, host: Host, build: Build, name: str, *, to: str, activity: _Activity) -> None:
        if build.source == GO:
            activity.text = "fetching Go modules"
            golang.fetch(
                host,
                self.desired.go,
                folder=build.origin,
                component=build.family.component(name),
                version=build.version,
                environment=self.desired.environment,
            )
            activity.text = "compiling"
            golang.build(
                host,
                self.desired.go,
                folder=build.origin,
                family=build.family,
                version=build.version,
                name=name,
                to=to,
                environment=self.desired.environment,
            )
        elif build.source == RELEASE:
            activity.text = "downloading"
            host.write(to, self._download(host, build, name), mode=0o755)
        else:
            with host.reading(os.path.join(build.origin, name)) as file:
                host.write(to, read_pieces(file), mode=0o755)

    def _download(self, host: Host, build: Build, name: str) -> bytes:
        downloads = self._downloads.get(build.directory)
        if downloads is None:
            downloads = Downloads(
                host, checksums=self.desired.checksums, environment=self.desired.environment, work=self.work
            )
            self._downloads = {build.directory: downloads}  # an archive need not stay in memory for the next build
        return downloads.program(
            build.family, name=name, version=build.version, base=build.origin, architecture=golang.architecture()
        )

    def _version(self, host: Host, build: Build, name: str, staged: str) -> str:
        """The version that the binary reports, which must be the requested one; with source path none is requested. The version of the
        sources for a binary that reports none."""
        arguments = build.family.component(name).version_args
        if not arguments:
            return build.version if build.source == GO else "unknown"
        argv = [staged, *arguments]
        needs = build.family.shows.format(version=build.version) if build.source == GO else build.version
        try:
            done = host.run(argv, timeout=_VERSION_SECONDS)
        except HostError as error:  # it failed, or was built for another architecture
            raise MESSAGES.error("binaries-version-output", found=error.found, name=name, needs=needs) from error
        output = done.stdout + done.stderr  # the CNI plugins use stderr
        if needs not in output:
            raise MESSAGES.error("binaries-version-output", found=output.strip()[:200], name=name, needs=needs)
        match = _VERSION.search(output)
        return match[0] if match else "unknown"

    @contextmanager
    def _reporting(self, name: str) -> Iterator[_Activity]:
        """Reports every few seconds what a long step is doing."""
        activity = _Activity()
        over = threading.Event()

        def report() -> None:
            while not over.wait(_REPORT_EVERY):
                self.progress.waiting(name, activity.text)

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            yield activity
        finally:
            over.set()
            thread.join()


class _Activity:
    text = "preparing"
