# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Engine of `lab_image`: disk images for virtual machines, in a cache, each named by a key over all its inputs.

    CACHE_DIR/NAME/ledger.jsonl
    CACHE_DIR/NAME/images/KEY/manifest.json   the inputs and the files
    CACHE_DIR/NAME/images/KEY/root.img        the image; its time stamp is fixed, so that changes are detected

A new image does not replace those with other keys, as the disks of existing machines are based on them. Removal removes all
of them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.events import PROGRESS_LOG
from .._core.engine.kinds import Kind, fields
from .._core.engine.ownership import DIRECTORY, adopt_directory, claim, remove_marked_directory
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.host.names import is_name
from .._core.text.errors import BallastError, Problems
from .._core.text.json_text import parse_json
from .build import Order, build, content_of, require_tools
from .messages import MESSAGES
from .recipes import EPOCH, RECIPES, WORK, Recipe
from .sparse import image_digest

CACHE_DIR = "/var/cache/ballast/vm"
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+", re.ASCII)  # Debian policy 5.6.1
_PATH = re.compile(r"/[A-Za-z0-9/._+@-]+", re.ASCII)
_BUILD_FREE_MIB = 2048  # a root image, and the directory from which it is made

SPEC: Mapping[str, Mapping[str, Any]] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "name": {"type": "str"},
    "recipe": {"type": "str", "default": "debian-13", "choices": sorted(RECIPES)},
    "source": {"type": "path"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "mirror": {"type": "str"},
    "cache_dir": {"type": "path", "default": CACHE_DIR},
    **PROGRESS_LOG,
}


@dataclass(frozen=True)
class ImageRequest:
    name: str
    recipe: Recipe
    cache_dir: str = CACHE_DIR
    packages: tuple[str, ...] = ()  # besides those of the recipe
    source: str = ""
    mirror: str = ""
    present: bool = True

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ImageRequest:
        recipe = RECIPES[params["recipe"]]
        name = params["name"] or recipe.name
        problems: list[BallastError] = []
        if not is_name(name):
            problems.append(MESSAGES.error("vm-name", path="name", value=repr(name)))
        if _PATH.fullmatch(params["cache_dir"]) is None:
            problems.append(MESSAGES.error("vm-path", path="cache_dir", value=repr(params["cache_dir"])))
        if recipe.build == "directory" and params["state"] == "present" and not params["source"]:
            problems.append(MESSAGES.error("vm-required", path="source", when="recipe is directory"))
        for package in params["packages"]:
            if _PACKAGE.fullmatch(package) is None:
                problems.append(MESSAGES.error("image-package-name", value=repr(package)))
        Problems.raise_if(problems)
        return cls(
            name=name,
            recipe=recipe,
            cache_dir=params["cache_dir"],
            packages=tuple(sorted(set(params["packages"]))),
            source=params["source"] or "",
            mirror=params["mirror"] or "",
            present=params["state"] == "present",
        )

    @property
    def state_dir(self) -> str:
        return os.path.join(self.cache_dir, self.name)

    @property
    def images(self) -> str:
        """The directory of the builds, one directory per key."""
        return os.path.join(self.state_dir, "images")

    def order(self, host: Host) -> Order:
        """The image to build, with its key. Reads inputs on this machine."""
        content = content_of(host, self.recipe, self.source)
        packages = tuple(sorted({*self.recipe.packages, *self.packages}))
        key = self.recipe.key(packages=packages, content=content)
        return Order(recipe=self.recipe, key=key, packages=packages, mirror=self.mirror, source=self.source)

    def path(self, key: str) -> str:
        """The file of the image with this key; it need not exist."""
        return os.path.join(self.images, key, self.recipe.file)


class ImagesKind:
    """`{key, recipe, packages, source, mirror}` of the last requested image; the directory keeps earlier ones."""

    def __init__(self, digest: Callable[[str], str]) -> None:
        self._digest = digest

    def read(self, ctx: Context[Any], target: str) -> Value:
        data = ctx.host.read(os.path.join(target, "current.json"))
        if data is None:
            return ABSENT
        value: Value = parse_json(data)
        if not is_whole(ctx.host, os.path.join(target, str(fields(value)["key"]))):
            return {**fields(value), "key": "damaged"}
        return value

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        value = fields(after)
        recipe = RECIPES[str(value["recipe"])]
        place = os.path.join(target, str(value["key"]))
        claim(ctx.host, target, owner=DIRECTORY)
        if not is_whole(ctx.host, place):
            ctx.progress.started(f"image {os.path.basename(target)}", WORK[recipe.build] + _last_time(ctx.host, target))
            self._build(ctx.host, target, place, _order(value, recipe))
        # A mirror's address may hold a password.
        ctx.host.write(os.path.join(target, "current.json"), json.dumps(after, sort_keys=True).encode(), mode=0o600)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        remove_marked_directory(ctx.host, target)

    def adopt(self, host: Host, target: str) -> None:
        adopt_directory(host, target)

    def _build(self, host: Host, target: str, place: str, order: Order) -> None:
        free = host.free_bytes(target) // 2**20
        if free < _BUILD_FREE_MIB:
            raise MESSAGES.error("vm-disk", path=target, needed=_BUILD_FREE_MIB, free=free)
        require_tools(host, order.recipe.tools)
        start = host.monotonic()
        work, out = os.path.join(target, ".work"), os.path.join(target, ".new")
        for directory in (work, out):  # leftovers of an interrupted build, in our own directory
            host.remove_tree(directory)
            host.make_directory(directory)
        try:
            packages = build(host, order, work=work, out=out)
        finally:
            host.remove_tree(work)
        manifest = {
            "recipe": order.recipe.name,
            "key": order.key,
            "packages": list(packages),
            "files": {name: self._describe(host, os.path.join(out, name)) for name in host.listdir(out)},
            "seconds": round(host.monotonic() - start, 1),
        }
        host.write(os.path.join(out, "manifest.json"), json.dumps(manifest, sort_keys=True, indent=1).encode())
        host.remove_tree(place)
        host.run(["mv", "--no-target-directory", out, place], timeout=60)

    def _describe(self, host: Host, path: str) -> dict[str, Value]:
        host.run(["touch", "--no-create", f"--date=@{EPOCH}", path], timeout=10)
        stat = host.stat(path)
        return {"size": stat.size if stat else 0, "digest": self._digest(path)}


def _last_time(host: Host, target: str) -> str:
    """A text on how long the last build took, of any content; "" before the first build."""
    current = parse_json(host.read(os.path.join(target, "current.json")) or b"{}")
    manifest = manifest_of(host, os.path.join(target, str(current.get("key", ""))))
    return f"; last time that took {manifest['seconds']:.0f} s" if manifest else ""


def _order(value: Mapping[str, Value], recipe: Recipe) -> Order:
    packages = value["packages"]
    if not isinstance(packages, list):
        raise TypeError(packages)
    return Order(
        recipe=recipe,
        key=str(value["key"]),
        packages=tuple(str(package) for package in packages),
        mirror=str(value["mirror"]),
        source=str(value["source"]),
    )


def manifest_of(host: Host, place: str) -> Optional[dict[str, Any]]:
    """The manifest of the build in directory `place`; None when there is none."""
    data = host.read(os.path.join(place, "manifest.json"))
    return parse_json(data) if data is not None else None


def is_whole(host: Host, place: str) -> bool:
    """Whether every file of a built image has its original size and time stamp."""
    manifest = manifest_of(host, place)
    if manifest is None:
        return False
    for name, described in manifest["files"].items():
        stat = host.stat(os.path.join(place, name))
        if stat is None or stat.size != described["size"] or int(stat.mtime) != EPOCH:
            return False
    return True


class ImageEngine(ResourceEngine[ImageRequest]):
    name = "image"

    def __init__(self, digest: Callable[[str], str] = image_digest) -> None:
        self.kinds: Mapping[str, Kind] = {"images": ImagesKind(digest)}

    def wanted(self, ctx: Context[ImageRequest]) -> list[Resource]:
        """The key of the image depends on files and programs of this machine."""
        desired = ctx.desired
        if not desired.present:
            return []
        order = desired.order(ctx.host)
        value: Value = {
            "key": order.key,
            "recipe": order.recipe.name,
            "packages": list(order.packages),
            "source": order.source,
            "mirror": order.mirror,
        }
        title = f"image {desired.name}"
        return [Resource(kind="images", target=desired.images, value=value, title=title, group=title)]

    def verify(self, ctx: Context[ImageRequest]) -> list[Finding]:
        return []  # the plan has compared every file with its manifest; the digest is verified when a machine is made

    def report(self, ctx: Context[ImageRequest]) -> dict[str, object]:
        desired = ctx.desired
        data = ctx.host.read(os.path.join(desired.images, "current.json"))
        manifest = manifest_of(ctx.host, os.path.join(desired.images, parse_json(data)["key"])) if data else None
        if not desired.present or manifest is None:
            return {"path": "", "key": "", "digest": "", "size": 0, "packages": [], "build_seconds": 0}
        described = manifest["files"][desired.recipe.file]
        return {
            "path": desired.path(manifest["key"]),
            "key": manifest["key"],
            "digest": described["digest"],
            "size": described["size"],
            "packages": manifest["packages"],
            "build_seconds": manifest["seconds"],
        }


ENGINE = ImageEngine()
