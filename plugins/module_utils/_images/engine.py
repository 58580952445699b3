# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Image archives: one file at one path, whose value is what it was made from.

An archive that is damaged, or was made from another definition, is built again. One that holds what is asked for is
left alone, also when newer packages have come since: remove it to have it built from them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Optional

from .._core.engine import Finding, ResourceEngine
from .._core.errors import BallastError, Bug
from .._core.events import Progress
from .._core.host import Host, LocalHost
from .._core.kinds import Kind
from .._core.plan import ABSENT, Plan, Recorded, Resource, State, Step, Value
from .archive import ArchiveFacts, DamagedArchive, ImageFacts, inspect
from .definitions import Desired, File, Image, Link
from .layout import Entry, FileEntry, Filled, LinkEntry, format_archive
from .messages import MESSAGES
from .packages import Package, architecture, closure, provide

KIND = "image-archive"


class ImageArchiveKind:
    """`{images: [definition]}`; what is no archive of ours reads as `{damaged: why}`."""

    def read(self, host: Host, target: str) -> Value:
        try:
            facts = read_facts(host, target)
        except DamagedArchive as error:
            return {"damaged": str(error)}
        if facts is None:
            return ABSENT
        if facts.definitions is None:
            return {"damaged": "it was not made by this module"}
        return {"images": facts.definitions}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        images = _images_of(after)
        # Beside the archive: the same filesystem has room for the one or lacks it for both.
        workshop = f"{target}.build"
        if host.stat(os.path.dirname(target)) is None:
            host.make_directory(os.path.dirname(target))
        with host.lock(f"{target}.lock"):
            host.remove_tree(workshop)  # what a killed run left
            try:
                host.write(target, build(host, images, directory=workshop))
            finally:
                host.remove_tree(workshop)
        host.remove(f"{target}.lock")

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)


class ImageEngine(ResourceEngine[Desired]):
    name = "images"
    kinds: Mapping[str, Kind] = {KIND: ImageArchiveKind()}

    def resources(self, desired: Desired) -> list[Resource]:
        if not desired.images:
            return []
        value: Value = {"images": [image.as_value() for image in desired.images]}
        title = f"image archive {desired.path}"
        return [Resource(kind=KIND, target=desired.path, value=value, title=title, group=_GROUP)]

    def observe(self, desired: Desired, host: Host) -> State:
        # One file, replaced in one step: its path is its record, and there is no ledger to ask or to keep.
        found = self.kinds[KIND].read(host, desired.path)
        record = Recorded(kind=KIND, target=desired.path, title=f"image archive {desired.path}", original=ABSENT)
        return State(recorded=() if found == ABSENT else (record,), values={record.key: found})

    def apply(self, plan: Plan, desired: Desired, host: Host, progress: Progress) -> tuple[Step, ...]:
        for step in plan.steps:
            progress.started(_GROUP, f"{step.verb} {step.title}")
            try:
                self._make(step.kind, step.target, host, after=step.after, before=step.before)
            except BallastError as error:
                progress.failed(_GROUP, error.text)
                raise
            progress.done(_GROUP, ", ".join(image.name for image in desired.images) or "removed")
        return plan.steps

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        wanted = self.resources(desired)
        found = self.kinds[KIND].read(host, desired.path)
        if found == (wanted[0].value if wanted else ABSENT):
            return []
        text = "it does not read back as it was written"
        return [
            Finding(id="image-archive-damaged", subject=desired.path, text=text, remedy="examine the disk it lies on")
        ]

    def preview(self, desired: Desired) -> dict[str, object]:
        # An archive that stays has its digests already, by which later tasks plan; one that is to be built has names.
        host = LocalHost()
        wanted = self.resources(desired)
        if wanted and self.kinds[KIND].read(host, desired.path) == wanted[0].value:
            return self.report(desired, host)
        images = [asdict(ImageFacts(name=image.name, digest="", config_digest="")) for image in desired.images]
        return {"path": desired.path, "present": bool(images), "size": 0, "images": images}

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        """`path`, `present`, `size` in bytes, and for each image its name, digests and packages."""
        try:
            facts = read_facts(host, desired.path)
        except DamagedArchive as error:
            raise MESSAGES.error("image-archive-damaged", path=desired.path, found=str(error)) from error
        if facts is None:
            return {"path": desired.path, "present": False, "size": 0, "images": []}
        images = [asdict(image) for image in facts.images]
        return {"path": desired.path, "present": True, "size": facts.size, "images": images}


_GROUP = "image archive"
ENGINE = ImageEngine()


def read_facts(host: Host, path: str) -> Optional[ArchiveFacts]:
    """None when there is no file; DamagedArchive when it is no OCI layout that holds together."""
    data = host.read(path)
    return None if data is None else inspect(io.BytesIO(data), size=len(data))


def build(host: Host, images: tuple[Image, ...], *, directory: str) -> bytes:
    """The archive of these images. Packages that are not installed are fetched and unpacked below `directory`."""
    whole = {image.name: closure(host, image.whole, directory=directory) for image in images}
    names = sorted({package for image in images for package in (*image.packages, *whole[image.name])})
    packages = {name: provide(host, name, directory=directory) for name in names}
    filled = [
        _fill(host, image, [packages[name] for name in image.packages], [packages[name] for name in whole[image.name]])
        for image in images
    ]
    return format_archive(filled, architecture=architecture(host))


def _fill(host: Host, image: Image, packages: list[Package], whole: list[Package]) -> Filled:
    entries: list[Entry] = [entry for package in whole for entry in package.programs(host)]
    entries += [LinkEntry(path=link.path, to=link.to) for link in image.links]
    entries += [_entry(host, image, file, packages) for file in image.files]
    labels = dict.fromkeys(package.label for package in (*packages, *whole))
    return Filled(image=image, entries=tuple(entries), packages=tuple(labels))


def _entry(host: Host, image: Image, file: File, packages: list[Package]) -> FileEntry:
    if file.program is not None:
        data = host.read(file.program)
        if data is None:
            raise MESSAGES.error("image-program", image=image.name, program=file.program)
        return FileEntry(path=file.path, data=data, mode=0o755)
    if file.source is None:
        return FileEntry(path=file.path, data=(file.content or "").encode(), mode=0o644)
    for package in packages:
        found = package.find(host, file.source)
        if found is not None:
            return replace(found, path=file.path)
    raise MESSAGES.error(
        "image-source-missing", image=image.name, packages=", ".join(image.packages) or "(none)", source=file.source
    )


def _images_of(value: Value) -> tuple[Image, ...]:
    """The definitions of a value, as the plan holds them."""
    found = value["images"] if isinstance(value, Mapping) else None
    if not isinstance(found, list):
        raise Bug("a plan for an image archive has no images", id="image-plan")
    return tuple(_image_of(entry) for entry in found)


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
    )
