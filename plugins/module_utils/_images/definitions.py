# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions of images, the images that the lab uses, and the request for an archive of images.

A definition is data, without versions unless the user sets them. Every path in an image is absolute; its parent
directories are created with it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional

from .._core.engine.events import PROGRESS_LOG
from .._core.engine.plan import Value
from .._core.text.errors import BallastError, Problems
from .messages import MESSAGES

# distribution/reference: domain, path, tag; always the full name, as containerd completes no names on import.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
NAME = re.compile(
    rf"(?:localhost|[a-z0-9][-a-z0-9]*(?:\.[a-z0-9][-a-z0-9]*)+)(?::[0-9]{{1,5}})?(?:/{_PART})+:[\w][-.\w]{{0,127}}",
    re.ASCII,
)
# A package name as in deb-control(5), optionally followed by =VERSION as apt-get accepts it.
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+~:-]+)?", re.ASCII)
_SUITE = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_ORIGINS = ("source", "content", "local")  # a file in a user's definition has exactly one of these
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MODE = re.compile(r"[01][0-7]{3}", re.ASCII)  # the sticky bit and permissions; set-user-ID is a separate option
_USER_PART = r"(?:[a-z_][-a-z0-9_]*|[0-9]{1,10})"
_USER = re.compile(rf"{_USER_PART}(?::{_USER_PART})?", re.ASCII)  # image-spec config.md: user or uid, and group or gid


@dataclass(frozen=True)
class File:
    """A file from a package (`source`), a text (`content`, mode 0644), a `program` that the collection has built (mode 0755), an `agent` of
    the collection (mode 0644, a file that Python runs), or a `local` file or directory of the building machine. Files of the last two
    kinds have a `digest` once their content was read. `mode` ("0755") replaces the mode of the file, or of each file in the directory.
    A program with `setuid` runs as root, whichever user starts it."""

    path: str
    source: Optional[str] = None
    content: Optional[str] = None
    program: Optional[str] = None
    agent: Optional[str] = None
    local: Optional[str] = None
    digest: Optional[str] = None
    setuid: bool = False
    mode: Optional[str] = None


@dataclass(frozen=True)
class Directory:
    """A directory that is empty, or needs another mode than 0755."""

    path: str
    mode: str


@dataclass(frozen=True)
class Link:
    path: str
    to: str


@dataclass(frozen=True)
class Image:
    """Contains only `files` from `packages`, but all programs and libraries from `whole` and its dependencies."""

    name: str
    packages: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    links: tuple[Link, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    stop_signal: str = ""  # the signal for an orderly end; empty: SIGTERM
    suite: str = ""  # Debian suite of the packages; empty: that of the building machine
    directories: tuple[Directory, ...] = ()
    user: str = ""  # for the command, in the form of image-spec: "1000" or "1000:0"; empty: root
    working_dir: str = ""  # of the command; empty: the root directory

    def as_value(self) -> Value:
        """JSON data that compares equal with what is read back. Fields newer than the first archives are left out when they are empty,
        so that those archives stay unchanged."""
        value: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        for name in ("whole", "stop_signal", "suite", "directories", "user", "working_dir"):
            if not value[name]:
                del value[name]
        for file in value["files"]:
            for name in ("program", "agent", "local", "digest", "mode"):
                if file[name] is None:
                    del file[name]
            if not file["setuid"]:
                del file["setuid"]
        return value


# fmt: off
# Applets for servers, clients and inspection; busybox-static of Debian 12 and 13 has all of them.
_APPLETS = (
    "[", "arp", "arping", "ash", "awk", "base64", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd",
    "df", "diff", "dirname", "dmesg", "du", "echo", "env", "expr", "false", "find", "free", "grep", "gunzip",
    "gzip", "head", "hexdump", "hostname", "httpd", "id", "ifconfig", "ip", "kill", "less", "link", "ln", "logger",
    "ls", "md5sum", "mkdir", "mkfifo", "mknod", "mktemp", "more", "mount", "mv", "nc", "netstat", "nproc",
    "nslookup", "od", "patch", "pidof", "ping", "ping6", "printf", "ps", "pwd", "readlink", "realpath", "rm",
    "rmdir", "route", "sed", "seq", "setsid", "sh", "sha256sum", "sleep", "sort", "stat", "stty", "sync", "sysctl",
    "tail", "tar", "tee", "telnet", "test", "time", "timeout", "top", "touch", "tr", "traceroute", "true",
    "truncate", "uname", "uniq", "unlink", "uptime", "usleep", "vi", "watch", "wc", "wget", "which", "whoami",
    "xargs", "yes",
)
# fmt: on

_IPTABLES = tuple(f"{name}{end}" for name in ("iptables", "ip6tables") for end in ("", "-restore", "-save"))
LEGACY_IPTABLES = "/usr/libexec/iptables-legacy"  # put first in PATH, this makes kube-proxy write legacy rules
KUBE_PROXY, SERVICE_PROXY = "kube-proxy", "service-proxy"
_SERVICE_PROXY_PROGRAM = "/usr/local/lib/ballast-service-proxy/ballast-service-proxy.pyz"
# Without it nft prints 6 for tcp: a starting kube-proxy then considers every element of its maps stale and deletes it, and Services
# are refused; ballast-service-proxy could not read its table.
_PROTOCOLS = File(path="/etc/protocols", source="/etc/protocols")
# Debian's links since directories were merged into /usr; packages still use both spellings.
_MERGED = tuple(Link(path=f"/{name}", to=f"usr/{name}") for name in ("bin", "lib", "lib64", "sbin"))


def _program(name: str) -> Image:
    """An image with one program of `bin_dir`, and nothing else."""
    path = f"/usr/local/bin/{name}"
    return Image(
        name=f"ballast.local/{name}:1",
        files=(File(path=path, program=name),),
        entrypoint=(path,),
        env=(("PATH", "/usr/local/bin"),),
    )


PRESETS: Mapping[str, Image] = {
    # catatonit -P sleeps until it gets a signal, and then exits at once (catatonit(1)).
    "pause": Image(
        name="ballast.local/pause:1",
        packages=("catatonit",),
        files=(File(path="/pause", source="/usr/bin/catatonit"),),
        entrypoint=("/pause", "-P"),
    ),
    # Server (httpd, nc) and client (wget, nc, nslookup) in one image.
    "busybox": Image(
        name="ballast.local/busybox:1",
        packages=("busybox-static",),
        files=(
            File(path="/bin/busybox", source="/usr/bin/busybox"),
            File(path="/etc/passwd", content="root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
            File(path="/etc/group", content="root:x:0:\nnobody:x:65534:\n"),
        ),
        directories=(Directory(path="/tmp", mode="1777"),),
        links=tuple(Link(path=f"/bin/{applet}", to="busybox") for applet in _APPLETS),
        entrypoint=("/bin/sh",),
        env=(("PATH", "/bin"),),
    ),
    # Everything that kube-proxy runs in any mode. The program itself comes from `bin_dir`.
    KUBE_PROXY: Image(
        name="ballast.local/kube-proxy:1",
        packages=("netbase",),
        whole=("nftables", "iptables", "conntrack", "ipset", "kmod"),
        files=(
            File(path="/usr/local/bin/kube-proxy", program="kube-proxy"),
            _PROTOCOLS,
        ),
        links=(
            *_MERGED,
            # Links of Debian's alternatives, which are in no package.
            *(Link(path=f"/usr/sbin/{name}", to="xtables-nft-multi") for name in _IPTABLES),
            *(Link(path=f"{LEGACY_IPTABLES}/{name}", to="/usr/sbin/xtables-legacy-multi") for name in _IPTABLES),
        ),
        entrypoint=("/usr/local/bin/kube-proxy",),
        env=(("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),),
    ),
    # Started as root, it becomes this user with only CAP_NET_ADMIN: a container has no capability for any other user.
    SERVICE_PROXY: Image(
        name=f"ballast.local/{SERVICE_PROXY}:1",
        packages=("netbase",),
        whole=("nftables", "iproute2", "python3", "python3-prometheus-client"),
        files=(
            File(path=_SERVICE_PROXY_PROGRAM, agent=SERVICE_PROXY),
            File(
                path="/etc/passwd",
                content="root:x:0:0:root:/:/usr/sbin/nologin\n"
                "ballast-service-proxy:x:65532:65532:made by ballast.kube:/nonexistent:/usr/sbin/nologin\n",
            ),
            File(path="/etc/group", content="root:x:0:\nballast-service-proxy:x:65532:\n"),
            _PROTOCOLS,
        ),
        directories=(Directory(path="/run", mode="0755"),),
        links=_MERGED,
        entrypoint=("/usr/bin/python3", "-I", _SERVICE_PROXY_PROGRAM),
        env=(("PATH", "/usr/sbin:/usr/bin"),),
    ),
    "docker-registry": Image(
        name="ballast.local/docker-registry:1",
        packages=("docker-registry",),
        whole=("libc6",),
        files=(File(path="/usr/bin/docker-registry", source="/usr/bin/docker-registry"),),
        links=_MERGED,
        entrypoint=("/usr/bin/docker-registry",),
        env=(("PATH", "/usr/bin"),),
    ),
    # Together with kube-proxy, pause and others, the images that kubeadm pulls from a registry.
    **{
        name: _program(name)
        for name in (
            *("coredns", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
            *("local-path-provisioner", "metallb-controller", "metallb-speaker", "metrics-server"),
        )
    },
    # Any other signal would leave its rules behind, and nothing that answers them.
    "kube-network-policies": replace(_program("kube-network-policies"), stop_signal="SIGINT"),
}
DEFAULT_IMAGES = ("busybox", "pause")

_FILE_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "str", "required": True},
    "source": {"type": "str"},
    "content": {"type": "str"},
    "local": {"type": "path"},
    "setuid": {"type": "bool", "default": False},
    "mode": {"type": "str"},
}
_DIRECTORY_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0755"},
}
_LINK_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "str", "required": True},
    "to": {"type": "str", "required": True},
}
_DEFINITION_SPEC: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "packages": {"type": "list", "elements": "str", "default": []},
    "whole": {"type": "list", "elements": "str", "default": []},
    "files": {"type": "list", "elements": "dict", "options": _FILE_SPEC, "default": []},
    "directories": {"type": "list", "elements": "dict", "options": _DIRECTORY_SPEC, "default": []},
    "links": {"type": "list", "elements": "dict", "options": _LINK_SPEC, "default": []},
    "entrypoint": {"type": "list", "elements": "str", "default": []},
    "cmd": {"type": "list", "elements": "str", "default": []},
    "env": {"type": "dict", "default": {}},
    "user": {"type": "str", "default": ""},
    "working_dir": {"type": "str", "default": ""},
}
INFO_SPEC: dict[str, dict[str, Any]] = {"path": {"type": "path", "required": True}}
SPEC: dict[str, dict[str, Any]] = {
    **INFO_SPEC,
    "images": {"type": "list", "elements": "str", "choices": sorted(PRESETS), "default": list(DEFAULT_IMAGES)},
    "names": {"type": "dict", "default": {}},
    "bin_dir": {"type": "path"},
    "suite": {"type": "str"},
    "definitions": {"type": "list", "elements": "dict", "options": _DEFINITION_SPEC, "default": []},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **PROGRESS_LOG,
}


@dataclass(frozen=True)
class ImageArchiveRequest:
    """An archive at `path` with these images; without images, no file there."""

    path: str
    images: tuple[Image, ...]

    @property
    def state_dir(self) -> str:
        """The directory of the archive."""
        return os.path.dirname(self.path)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ImageArchiveRequest:
        path = str(params["path"])
        problems: list[BallastError] = []
        if not path.startswith("/") or not path.endswith(".tar"):
            problems.append(MESSAGES.error("image-path", path=path))
        if params.get("state", "absent") == "absent":
            Problems.raise_if(problems)
            return cls(path=path, images=())
        bin_dir = params.get("bin_dir") or ""
        chosen = list(dict.fromkeys(params["images"]))
        built = [name for name in chosen if any(file.program for file in PRESETS[name].files)]
        if built and not is_plain(bin_dir):
            problems.append(MESSAGES.error("image-bin-dir", value=bin_dir, image=built[0]))
        suite = params.get("suite") or ""
        if suite and not _SUITE.fullmatch(suite):
            problems.append(MESSAGES.error("image-suite", suite=suite))
        names = {str(preset): str(name) for preset, name in params["names"].items()}
        for preset, name in names.items():
            if preset not in chosen:
                problems.append(MESSAGES.error("image-names", preset=preset, chosen=", ".join(chosen)))
            elif not NAME.fullmatch(name):
                problems.append(MESSAGES.error("image-name", where=f"names.{preset}", name=name))
        images = [_preset(preset, bin_dir, names.get(preset)) for preset in chosen]
        for number, (preset, name) in enumerate(names.items()):
            if name in list(names.values())[:number]:
                problems.append(MESSAGES.error("image-name-twice", where=f"names.{preset}", name=name))
        for number, definition in enumerate(params["definitions"]):
            image = _image(definition)
            problems += _problems_of(image, where=f"definitions[{number}]")
            if image.name in {other.name for other in images}:
                problems.append(
                    MESSAGES.error("image-name-twice", where=f"definitions[{number}].name", name=image.name)
                )
            images.append(image)
        if not images:
            problems.append(MESSAGES.error("image-none", path=path))
        Problems.raise_if(problems)
        return cls(path=path, images=tuple(replace(image, suite=suite) for image in images))


def _preset(preset: str, bin_dir: str, name: Optional[str]) -> Image:
    image = PRESETS[preset]
    files = (
        file if file.program is None else replace(file, program=os.path.join(bin_dir, file.program))
        for file in image.files
    )
    return replace(image, name=name or image.name, files=tuple(files))


def _image(definition: Mapping[str, Any]) -> Image:
    return Image(
        name=definition["name"],
        packages=tuple(definition["packages"]),
        whole=tuple(definition["whole"]),
        files=tuple(
            File(
                path=file["path"],
                setuid=bool(file.get("setuid")),
                mode=file.get("mode"),
                **{origin: file.get(origin) for origin in _ORIGINS},
            )
            for file in definition["files"]
        ),
        links=tuple(Link(path=link["path"], to=link["to"]) for link in definition["links"]),
        entrypoint=tuple(definition["entrypoint"]),
        cmd=tuple(definition["cmd"]),
        env=tuple(sorted((str(name), str(value)) for name, value in definition["env"].items())),
        directories=tuple(
            Directory(path=directory["path"], mode=directory["mode"]) for directory in definition["directories"]
        ),
        user=definition["user"],
        working_dir=definition["working_dir"],
    )


def _problems_of(image: Image, *, where: str) -> Iterator[BallastError]:
    if not NAME.fullmatch(image.name):
        yield MESSAGES.error("image-name", where=f"{where}.name", name=image.name)
    for option, packages in (("packages", image.packages), ("whole", image.whole)):
        for number, package in enumerate(packages):
            if not PACKAGE.fullmatch(package):
                yield MESSAGES.error("image-package", where=f"{where}.{option}[{number}]", package=package)
    for number, file in enumerate(image.files):
        origins = [file.source, file.content, file.program, file.agent, file.local]
        places = [file.path, *(path for path in (file.source, file.local) if path is not None)]
        if origins.count(None) != len(origins) - 1 or not all(map(is_plain, places)):
            yield MESSAGES.error("image-file", where=f"{where}.files[{number}]")
    for number, link in enumerate(image.links):
        if not is_plain(link.path) or not link.to:
            yield MESSAGES.error("image-file", where=f"{where}.links[{number}]")
    yield from _problems_of_paths(image, where=where)
    yield from _problems_of_modes(image, where=where)
    for name, _value in image.env:
        if not _VARIABLE.fullmatch(name):
            yield MESSAGES.error("image-env", where=f"{where}.env", name=name)
    if image.user and not _USER.fullmatch(image.user):
        yield MESSAGES.error("image-user", where=f"{where}.user", user=image.user)


def _problems_of_paths(image: Image, *, where: str) -> Iterator[BallastError]:
    for number, directory in enumerate(image.directories):
        if not is_plain(directory.path):
            yield MESSAGES.error("image-directory", where=f"{where}.directories[{number}].path", path=directory.path)
    if image.working_dir and not is_plain(image.working_dir):
        yield MESSAGES.error("image-directory", where=f"{where}.working_dir", path=image.working_dir)
    paths = [file.path for file in image.files] + [link.path for link in image.links]
    own = [directory.path for directory in image.directories]
    directories = {directory for path in (*paths, *own) for directory in parents(path)}
    twice = {path for path in paths if paths.count(path) > 1 or path in directories or path in own}
    for path in sorted(twice | {path for path in own if own.count(path) > 1}):
        yield MESSAGES.error("image-file-twice", where=where, path=path)


def _problems_of_modes(image: Image, *, where: str) -> Iterator[BallastError]:
    modes = [(f"files[{number}]", file.mode) for number, file in enumerate(image.files) if file.mode is not None]
    modes += [(f"directories[{number}]", directory.mode) for number, directory in enumerate(image.directories)]
    for place, mode in modes:
        if not _MODE.fullmatch(mode):
            yield MESSAGES.error("image-mode", where=f"{where}.{place}.mode", mode=mode)


def is_plain(path: str) -> bool:
    """Whether `path` is absolute and normalized."""
    return path.startswith("/") and path != "/" and os.path.normpath(path) == path and "\0" not in path


def parents(path: str) -> list[str]:
    """The directories above an absolute path, outermost first, without the root: /a/b/c has /a and /a/b."""
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: end + 1]) for end in range(len(parts))]
