# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Image archives: one file at one path, whose value is the definitions of its images.

An archive that is damaged, or was made from other definitions, is built again. A matching archive is kept even when newer packages
exist: remove it to build it from them. A file that does not begin like our archives belongs to someone else, and is neither
replaced nor removed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.kinds import Kind
from .._core.engine.ownership import has_trusted_owner, require_private
from .._core.engine.plan import ABSENT, Plan, Recorded, Resource, State, Value
from .._core.host.host import PROGRAM_LIMIT, Host
from .._core.text.errors import BallastError, Bug
from .archive import ArchiveFacts, DamagedArchive, ImageFacts, inspect
from .definitions import Directory, File, Image, ImageArchiveRequest, Link
from .layout import INDEX_AT, INDEX_START, DirectoryEntry, Entry, FileEntry, FilledImage, LinkEntry, format_archive
from .messages import MESSAGES
from .own_files import read_agent, read_local, with_digests
from .packages import Package, architecture, open_source, provide, resolve_dependencies

KIND = "image-archive"


class ImageArchiveKind:
    """`{images: [definition]}`; a file that is not our archive reads as `{damaged: why}`."""

    def __init__(self) -> None:
        self._last: tuple[str, str, Optional[ArchiveFacts]] = (
            "",
            "",
            None,
        )  # path and version of the file read last, and its content

    def read_again(self, host: Host, path: str) -> Optional[ArchiveFacts]:
        """`read_facts`, without hashing the last file again if it has not changed since."""
        stat = host.stat(path)
        if stat is not None and self._last[:2] == (path, stat.version):
            return self._last[2]
        return read_facts(host, path)

    def read(self, ctx: Context[Any], target: str) -> Value:
        require_ours(ctx.host, target)
        stat = ctx.host.stat(target)
        try:
            facts = read_facts(ctx.host, target)
            self._last = (target, "" if stat is None else stat.version, facts)
        except DamagedArchive as error:
            return {"damaged": str(error)}
        if facts is None:
            return ABSENT
        if facts.definitions is None:
            return {"damaged": "this module did not write it"}
        return {"images": facts.definitions}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        images = _images_of(after)
        require_ours(ctx.host, target)
        place = os.path.dirname(target)
        if ctx.host.stat(place) is None:
            ctx.host.make_directory(place)
        with ctx.host.lock(f"{target}.lock"):
            # Beside the archive, so that both use the same file system.
            with ctx.host.work_directory(place, os.path.basename(target)) as work:
                ctx.host.write(target, build(ctx.host, images, directory=work))
            ctx.host.remove(f"{target}.lock")

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        require_ours(ctx.host, target)
        ctx.host.remove(target)


class ImageEngine(ResourceEngine[ImageArchiveRequest]):
    name = "images"
    archive = ImageArchiveKind()
    kinds: Mapping[str, Kind] = {KIND: archive}
    is_verified_by_plan = True

    def wanted(self, ctx: Context[ImageArchiveRequest]) -> list[Resource]:
        desired = ctx.desired
        if not desired.images:
            return []
        value: Value = {"images": [with_digests(ctx.host, image).as_value() for image in desired.images]}
        title = f"image archive {desired.path}"
        return [Resource(kind=KIND, target=desired.path, value=value, title=title, group=_GROUP)]

    def observe(self, ctx: Context[ImageArchiveRequest]) -> State:
        # A single file, replaced in one step, needs no journal.
        path = ctx.desired.path
        value = self.read_value(KIND, path, ctx)
        record = Recorded(kind=KIND, target=path, title=f"image archive {path}", original=ABSENT)
        return State(() if value == ABSENT else (record,), {record.key: value}, tuple(self.wanted(ctx)))

    def apply(self, plan: Plan, ctx: Context[ImageArchiveRequest]) -> Plan:
        for step in plan.steps:
            ctx.progress.started(_GROUP, f"{step.verb} {step.title}")
            try:
                self.change(step, ctx, after=step.after, before=step.before)
            except BallastError as error:
                ctx.progress.failed(_GROUP, error.text)
                raise
            ctx.progress.done(_GROUP, ", ".join(image.name for image in ctx.desired.images) or "removed")
        return plan

    def verify(self, ctx: Context[ImageArchiveRequest]) -> list[Finding]:
        if not self.plan(ctx.desired, self.observe(ctx)).steps:
            return []
        text = "its content differs from what was written"
        remedy = "check the disk of this directory"
        return [Finding(id="image-archive-damaged", subject=ctx.desired.path, text=text, remedy=remedy)]

    def preview(self, ctx: Context[ImageArchiveRequest]) -> dict[str, object]:
        # An unchanged archive already has digests, which later tasks need for their plans; a new one only has names.
        desired = ctx.desired
        if desired.images and not self.plan(desired, self.observe(ctx)).steps:
            return self.report(ctx)
        images = [asdict(ImageFacts(name=image.name, digest="", config_digest="")) for image in desired.images]
        return {"path": desired.path, "present": bool(images), "size": 0, "images": images}

    def report(self, ctx: Context[ImageArchiveRequest]) -> dict[str, object]:
        """`path`, `present`, `size` in bytes, and for each image its name, digests and packages."""
        desired = ctx.desired
        try:
            facts = self.archive.read_again(ctx.host, desired.path)
        except DamagedArchive as error:
            raise MESSAGES.error("image-archive-damaged", path=desired.path, found=str(error)) from error
        if facts is None:
            return {"path": desired.path, "present": False, "size": 0, "images": []}
        images = [asdict(image) for image in facts.images]
        return {"path": desired.path, "present": True, "size": facts.size, "images": images}


_GROUP = "image archive"
_SETUID = 0o4000
ENGINE = ImageEngine()


def require_ours(host: Host, path: str) -> None:
    """HostError when `path` is anything but a file of this module."""
    require_private(host, path)
    stat = host.stat(path)
    if stat is None:
        return
    if stat.kind != "file":
        raise MESSAGES.error(
            "image-archive-others", path=path, found="not a regular file" if stat.kind == "other" else f"a {stat.kind}"
        )
    if not has_trusted_owner(stat):
        what = f"a file of user {stat.uid}, mode {stat.mode:04o}: others may have changed it"
        raise MESSAGES.error("image-archive-others", path=path, found=what)
    with host.reading(path) as file:
        head = b"" if file is None else file.read(INDEX_AT + len(INDEX_START))
    if head[INDEX_AT:] != INDEX_START:
        what = f"a file of {stat.size} bytes that does not begin like an archive of this module"
        raise MESSAGES.error("image-archive-others", path=path, found=what)


def read_facts(host: Host, path: str) -> Optional[ArchiveFacts]:
    """The facts; None when there is no file. Raises DamagedArchive for anything but a consistent OCI layout."""
    with host.reading(path) as file:
        if file is None:
            return None
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        return inspect(file, size=size)


def build(host: Host, images: tuple[Image, ...], *, directory: str) -> bytes:
    """The archive of these images. Fetches packages that are not installed and unpacks them below `directory`."""
    suites = [image.suite for image in images if image.packages or image.whole]
    source = open_source(host, suites[0] if suites else "", directory=directory)
    whole = {image.name: resolve_dependencies(host, source, image.whole, directory=directory) for image in images}
    names = sorted({package for image in images for package in (*image.packages, *whole[image.name])})
    packages = provide(host, source, names, directory=directory)
    filled = [
        _fill(host, image, [packages[name] for name in image.packages], [packages[name] for name in whole[image.name]])
        for image in images
    ]
    return format_archive(filled, architecture=architecture(host))


def _fill(host: Host, image: Image, packages: list[Package], whole: list[Package]) -> FilledImage:
    entries: list[Entry] = [entry for package in whole for entry in package.programs(host)]
    entries += [LinkEntry(path=link.path, to=link.to) for link in image.links]
    entries += [DirectoryEntry(path=directory.path, mode=int(directory.mode, 8)) for directory in image.directories]
    for file in image.files:
        taken: Sequence[Entry] = read_local(host, image, file) if file.local else [_entry(host, image, file, packages)]
        entries += [_with_mode(entry, file) for entry in taken]
    labels = dict.fromkeys(package.label for package in (*packages, *whole))
    return FilledImage(image=image, entries=tuple(entries), packages=tuple(labels))


def _with_mode(entry: Entry, file: File) -> Entry:
    """The entry with the file's mode, if set. Only programs get the set-user-ID bit, so texts in a directory do not."""
    if not isinstance(entry, FileEntry):
        return entry
    mode = entry.mode if file.mode is None else int(file.mode, 8)
    return replace(entry, mode=mode | _SETUID if file.setuid and mode & 0o100 else mode)


def _entry(host: Host, image: Image, file: File, packages: list[Package]) -> FileEntry:
    if file.program is not None:
        data = host.read(file.program, limit=PROGRAM_LIMIT)
        if data is None:
            raise MESSAGES.error("image-program", image=image.name, program=file.program)
        return FileEntry(path=file.path, data=data, mode=0o755)
    if file.agent is not None:
        return read_agent(file)
    if file.source is None:
        return FileEntry(path=file.path, data=(file.content or "").encode(), mode=0o644)
    for package in packages:
        entry = package.find(host, file.source)
        if entry is not None:
            return replace(entry, path=file.path)
    raise MESSAGES.error(
        "image-source-missing", image=image.name, packages=", ".join(image.packages) or "(none)", source=file.source
    )


def _images_of(value: Value) -> tuple[Image, ...]:
    """The images in a value of a plan."""
    images = value["images"] if isinstance(value, Mapping) else None
    if not isinstance(images, list):
        raise Bug("a plan for an image archive has no images", id="image-plan")
    return tuple(_image_of(entry) for entry in images)


def _image_of(entry: object) -> Image:
    fields = dict(entry) if isinstance(entry, Mapping) else {}
    return Image(
        name=fields["name"],
        packages=tuple(fields["packages"]),
        whole=tuple(fields.get("whole", ())),
        files=tuple(File(**file) for file in fields["files"]),
        links=tuple(Link(**link) for link in fields["links"]),
        entrypoint=tuple(fields["entrypoint"]),
        cmd=tuple(fields["cmd"]),
        env=tuple((name, text) for name, text in fields["env"]),
        stop_signal=fields.get("stop_signal", ""),
        suite=fields.get("suite", ""),
        directories=tuple(Directory(**directory) for directory in fields.get("directories", ())),
        user=fields.get("user", ""),
        working_dir=fields.get("working_dir", ""),
    )
