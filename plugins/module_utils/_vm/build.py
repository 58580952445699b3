# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds images in a directory that is moved to its place when it is complete.

The same input gives the same bytes: file systems get fixed identifiers and hash seeds, and everything the same time stamp.
mke2fs copies times of its source, not all of which can be set there, so debugfs sets them afterwards.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .._archives.tarred import unpack
from .._core.host.host import PROGRAM_LIMIT, Host
from .._images.debian import KEYRING, MIRROR, debian_mirror
from . import cpio, guest, uml_kernel
from .messages import MESSAGES
from .recipes import DISK_MIB, EPOCH, SUITE, UML_MODULES, Recipe

_BUILD_SECONDS = 1800  # for one command; fetching Debian packages over a slow line takes longest
_FEATURES_WITHOUT_JOURNAL = ("-O", "^has_journal")


@dataclass(frozen=True)
class Order:
    """An image to build, with every input."""

    recipe: Recipe
    key: str
    packages: tuple[str, ...]  # those of the recipe and of the request
    mirror: str = ""  # empty: this machine's mirror, else mmdebstrap's default
    source: str = ""  # of a directory image


_COMPILE_SECONDS = 5400  # for a kernel, on the slowest machine worth trying

Builder = Callable[[Host, Order, str, str], "tuple[str, ...]"]


def build(host: Host, order: Order, *, work: str, out: str) -> tuple[str, ...]:
    """Fill `out` with the finished files, using the empty directory `work`. Returns the packages inside, `name version`."""
    return BUILDERS[order.recipe.build](host, order, work, out)


def _build_root(host: Host, order: Order, work: str, out: str) -> tuple[str, ...]:
    root = os.path.join(work, "root")
    _bootstrap(host, order, root, variant="minbase")
    packages = _list_packages(host, root)
    for path in guest.EMPTIED:
        for name in host.listdir(root + path):
            _remove(host, os.path.join(root + path, name))
    for path in guest.REMOVED:
        host.remove(root + path)
    for file in guest.FILES:
        host.make_directory(os.path.dirname(root + file.path))
        host.write(root + file.path, file.content.encode(), mode=file.mode)
    for link in guest.LINKS:
        host.make_directory(os.path.dirname(root + link.path))
        host.symlink(root + link.path, link.to)
    host.make_directory(root + guest.MODULES_MOUNT)
    image = os.path.join(out, order.recipe.file)
    _make_file_system(host, root, image, key=order.key, label="ballast-root", mib=DISK_MIB, options=("-J", "size=16"))
    return packages


def _build_directory(host: Host, order: Order, work: str, out: str) -> tuple[str, ...]:
    stage = os.path.join(work, "stage")
    host.make_directory(stage)
    # Symbolic links are replaced by their targets, which the guest would lack.
    copy = ["cp", "--recursive", "--dereference", "--preserve=mode", f"{order.source}/.", f"{stage}/"]
    host.run(copy, timeout=_BUILD_SECONDS)
    _make_fitted_file_system(host, stage, os.path.join(out, order.recipe.file), key=order.key)
    return ()


def _build_uml_modules(host: Host, order: Order, work: str, out: str) -> tuple[str, ...]:
    version = uml_version(host)
    source = os.path.join(UML_MODULES, version)
    if not host.listdir(source):
        raise MESSAGES.error("image-kernel-missing", version=version, path=source)
    stage = os.path.join(work, "stage")
    host.make_directory(stage)
    host.run(["cp", "--recursive", "--preserve=mode", source, f"{stage}/"], timeout=_BUILD_SECONDS)
    _make_fitted_file_system(host, stage, os.path.join(out, order.recipe.file), key=order.key)
    return ()


def _build_cloud_kernel(host: Host, order: Order, work: str, out: str) -> tuple[str, ...]:
    """`vmlinuz`, `initrd` and the image of the modules, from packages that are unpacked but not installed."""
    root = os.path.join(work, "root")
    _bootstrap(host, order, root, variant="extract")
    modules = root + guest.MODULES_MOUNT
    version = next(iter(host.listdir(modules)), "")
    kernel = host.read(f"{root}/boot/vmlinuz-{version}", limit=PROGRAM_LIMIT)
    busybox = host.read(f"{root}/usr/bin/busybox", limit=PROGRAM_LIMIT)
    driver = host.read(f"{modules}/{version}/kernel/drivers/block/virtio_blk.ko.xz")
    if kernel is None or busybox is None or driver is None:
        raise MESSAGES.error("image-kernel-missing", version=version or "(none)", path=modules)
    host.write(os.path.join(out, "vmlinuz"), kernel)
    host.write(os.path.join(out, "initrd"), initrd(busybox, unpack(driver, limit=PROGRAM_LIMIT)))
    # depmod looks in /lib, which the package that merges it into /usr would create.
    if host.stat(f"{root}/lib") is None:
        host.symlink(f"{root}/lib", "usr/lib")
    # A script of the package, which did not run, would make depmod's lists.
    host.run(["depmod", "--basedir", root, version], timeout=120)
    stage = os.path.join(work, "stage")
    host.make_directory(stage)
    host.run(["mv", os.path.join(modules, version), f"{stage}/"], timeout=60)
    _make_fitted_file_system(host, stage, os.path.join(out, order.recipe.file), key=order.key)
    return (f"linux-image-cloud-amd64 {version}",)


def _build_uml_kernel(host: Host, order: Order, work: str, out: str) -> tuple[str, ...]:
    """`linux.uml` and the image of its modules, from Debian's kernel source."""
    root = os.path.join(work, "root")
    _bootstrap(host, order, root, variant="extract", suite=uml_kernel.SUITE)
    name = _source_name(host, f"{root}/usr/src")
    archive = f"{root}/usr/src/{name}.tar.xz"
    host.run(["tar", "--extract", f"--file={archive}", f"--directory={work}"], timeout=_BUILD_SECONDS)
    host.remove_tree(root)
    tree = os.path.join(work, name)
    stamp = {"KBUILD_BUILD_TIMESTAMP": f"@{EPOCH}", "KBUILD_BUILD_USER": "ballast", "KBUILD_BUILD_HOST": "ballast"}

    def make(*words: str) -> str:
        return host.run(["make", "ARCH=um", *words], timeout=_COMPILE_SECONDS, env=stamp, cwd=tree).stdout

    make("x86_64_defconfig")
    options = [word for name in uml_kernel.ENABLED for word in ("--enable", name)]
    options += [word for name in uml_kernel.DISABLED for word in ("--disable", name)]
    host.run([os.path.join(tree, "scripts/config"), *options], timeout=120, cwd=tree)
    make("olddefconfig")
    refused = uml_kernel.not_enabled((host.read(os.path.join(tree, ".config")) or b"").decode())
    if refused:
        raise MESSAGES.error("image-kernel-options", options=" ".join(refused), package=name)
    processors = host.run(["nproc"], timeout=10).stdout.strip()
    make(f"-j{processors}", "linux", "modules")
    version = make("--silent", "kernelrelease").strip()
    make("modules_install", f"INSTALL_MOD_PATH={root}")
    host.run(["strip", "-o", os.path.join(out, "linux.uml"), os.path.join(tree, "linux")], timeout=120)
    for link in ("build", "source"):  # links into the tree, which is removed
        host.remove(f"{root}/lib/modules/{version}/{link}")
    _make_fitted_file_system(host, f"{root}/lib/modules", os.path.join(out, order.recipe.file), key=order.key)
    return (f"{name} {version}",)


def _source_name(host: Host, directory: str) -> str:
    """The versioned source package that the unversioned one depends on."""
    suffix = ".tar.xz"
    packages = [name[: -len(suffix)] for name in host.listdir(directory) if name.endswith(suffix)]
    if len(packages) != 1:
        raise MESSAGES.error("image-kernel-source", package=uml_kernel.SOURCE_PACKAGE, suite=uml_kernel.SUITE)
    return packages[0]


def initrd(busybox: bytes, virtio_blk: bytes) -> bytes:
    """An initial root file system that loads the disk's driver, mounts the disk and continues there. Pure."""
    directories = ("bin", "dev", "proc", "root")
    return cpio.archive(
        [
            *(cpio.Entry(path=name) for name in directories),
            cpio.Entry(path="dev/console", mode=0o600, device=(5, 1)),
            cpio.Entry(path="bin/busybox", data=busybox),
            cpio.Entry(path="virtio_blk.ko", mode=0o644, data=virtio_blk),
            cpio.Entry(path="init", data=_INIT.encode()),
        ]
    )


_INIT = """\
#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
busybox insmod /virtio_blk.ko
init=/sbin/init mode=rw
read -r cmdline </proc/cmdline
for word in $cmdline; do
  case $word in
    init=*) init=${word#*=} ;;
    ro) mode=ro ;;
  esac
done
tries=0
until [ -b /dev/vda ] || [ "$tries" = 50 ]; do
  busybox sleep 0.1
  tries=$((tries + 1))
done
busybox mount -t ext4 -o "$mode" /dev/vda /root || { echo "ballast: no root disk"; busybox poweroff -f; }
busybox mount -o move /dev /root/dev
busybox umount /proc
exec busybox switch_root /root "$init"
"""

BUILDERS: Mapping[str, Builder] = {
    "root": _build_root,
    "directory": _build_directory,
    "uml-modules": _build_uml_modules,
    "cloud-kernel": _build_cloud_kernel,
    "uml-kernel": _build_uml_kernel,
}


def content_of(host: Host, recipe: Recipe, source: str) -> str:
    """The part of the key that describes inputs on this machine."""
    if recipe.build == "uml-modules":
        return uml_version(host) if host.which("linux.uml") else "none"
    if recipe.build == "directory":
        return directory_content(host, source)
    return ""


def directory_content(host: Host, source: str) -> str:
    """A digest of the names, modes and contents of the files in `source`; symbolic links are followed."""
    listing = host.run(["find", "-L", source, "-type", "f", "-printf", "%P\\t%m\\n"], timeout=60, check=False)
    rows = sorted(listing.stdout.splitlines())
    if listing.status != 0 or not rows:
        raise MESSAGES.error("image-source", found=listing.stderr.strip(), path=source)
    paths = [os.path.join(source, row.split("\t")[0]) for row in rows]
    sums = host.run(["sha256sum", "--zero", "--", *paths], timeout=_BUILD_SECONDS).stdout.split("\0")
    text = "\n".join(f"{row}\t{line.split(' ', 1)[0]}" for row, line in zip(rows, sums))
    return hashlib.sha256(text.encode()).hexdigest()


def uml_version(host: Host) -> str:
    """The version of the User Mode Linux kernel that is installed on this host."""
    return host.run(["linux.uml", "--version"], timeout=10).stdout.strip()


def _bootstrap(host: Host, order: Order, root: str, *, variant: str, suite: str = SUITE) -> None:
    """Install or unpack the order's packages below `root`, from `suite` if it has them, else from Debian 13."""
    left_out = ("doc", "info", "locale", "man", "zoneinfo")
    argv = [
        "mmdebstrap",
        f"--variant={variant}",
        "--mode=root",
        "--format=directory",
        f"--keyring={KEYRING}",
        f"--include={','.join(sorted(order.packages))}",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in left_out),
        '--aptopt=Apt::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
    ]
    mirror = order.mirror or debian_mirror(host)
    suites: tuple[str, ...] = (SUITE,)
    if suite != SUITE:
        mirror, suites = mirror or MIRROR, (SUITE, suite)
        argv.append(f'--aptopt=Apt::Default-Release "{suite}"')
    # Everybody on this machine can read a command line, so addresses, which may hold a password, are passed in other ways.
    sources = "".join(f"deb {mirror} {of} main\n" for of in suites) if mirror else ""
    host.run(
        [*argv, SUITE, root, *(["-"] if sources else [])],
        timeout=_BUILD_SECONDS,
        stdin=sources.encode(),
        env={"SOURCE_DATE_EPOCH": str(EPOCH), **_proxies(host)},
    )


def _proxies(host: Host) -> dict[str, str]:
    """Proxy variables for apt: mmdebstrap does not read this machine's apt settings, but needs a proxy configured there. Passed as
    options they would stay in the image."""
    argv = ["apt-config", "dump", "--no-empty", "--format", "%f %v%n", "Acquire::http::Proxy", "Acquire::https::Proxy"]
    settings = host.run(argv, timeout=10, check=False).stdout if host.which("apt-config") else ""
    rows = [line.split(" ", 1) for line in settings.splitlines() if " " in line.strip()]
    names = {"Acquire::http::Proxy": "http_proxy", "Acquire::https::Proxy": "https_proxy"}
    return {names[name]: value for name, value in rows if name in names and value.upper() != "DIRECT"}


def _list_packages(host: Host, root: str) -> tuple[str, ...]:
    argv = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat=${Package} ${Version}\\n"]
    return tuple(sorted(host.run(argv, timeout=60).stdout.splitlines()))


def _make_fitted_file_system(host: Host, source: str, image: str, *, key: str) -> None:
    """Make a read-only disk as small as its content allows."""
    sizes = host.run(["find", source, "-printf", "%s\\n"], timeout=60).stdout.split()
    blocks = sum(-(-int(size) // 4096) + 1 for size in sizes)
    mib = blocks * 4096 * 105 // 100 // 2**20 + len(sizes) // 2000 + 8
    _make_file_system(host, source, image, key=key, label="ballast-disk", mib=mib, options=_FEATURES_WITHOUT_JOURNAL)


def _make_file_system(
    host: Host, source: str, image: str, *, key: str, label: str, mib: int, options: tuple[str, ...]
) -> None:
    identifier, seed = (str(uuid.uuid5(uuid.NAMESPACE_OID, f"ballast {key} {part}")) for part in ("id", "seed"))
    entries = len(host.run(["find", source, "-printf", "\\n"], timeout=60).stdout.splitlines())
    argv = ["mke2fs", "-q", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0", "-L", label, "-U", identifier]
    argv += ["-E", f"hash_seed={seed},lazy_itable_init=0,root_owner=0:0", *options, "-d", source]
    if "-J" not in options:
        argv += ["-N", str(entries + 64)]  # a disk that is never written needs no spare inodes
    env = {"E2FSPROGS_FAKE_TIME": str(EPOCH)}
    host.run([*argv, image, f"{mib}M"], timeout=_BUILD_SECONDS, env=env)
    # Inodes are numbered consecutively; the first ten belong to the file system.
    commands = [f"sif <{inode}> {name} @{EPOCH}" for inode in range(2, entries + 16) for name in _TIMES]
    script = f"{image}.times"
    host.write(script, ("\n".join(commands) + "\n").encode())
    host.run(["debugfs", "-w", "-f", script, image], timeout=_BUILD_SECONDS, env=env)
    host.remove(script)
    host.run(["fallocate", "--dig-holes", image], timeout=_BUILD_SECONDS)  # mke2fs writes empty tables as zeros
    host.run(["touch", "--no-create", f"--date=@{EPOCH}", image], timeout=10)
    host.run(["e2fsck", "-f", "-n", image], timeout=_BUILD_SECONDS)


_TIMES = ("atime", "ctime", "mtime")


def _remove(host: Host, path: str) -> None:
    stat = host.stat(path)
    if stat is not None and stat.kind == "directory":
        host.remove_tree(path)
    else:
        host.remove(path)


def require_tools(host: Host, tools: tuple[tuple[str, str], ...]) -> None:
    """Raises one error with everything that is missing. A tool with a slash is a file that must exist."""
    missing = [row for row in tools if (host.stat(row[0]) if "/" in row[0] else host.which(row[0])) is None]
    if missing:
        raise MESSAGES.error(
            "vm-tool-missing",
            tools=", ".join(tool for tool, _package in missing),
            packages=" ".join(sorted({package for _tool, package in missing})),
        )
