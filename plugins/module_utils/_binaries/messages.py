# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors about programs: id, text and remedy."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-binaries.md",
    [
        Message(
            id="binaries-unknown-version",
            error=UserError,
            text="{option}: {family} {version} has no pinned Go module here; supported: {supported}",
            remedy="use a supported version, or take the programs by source release or path",
        ),
        Message(
            id="binaries-version-form",
            error=UserError,
            text="{option}: {version} is not a version",
            remedy="write it as three numbers, such as 1.37.1",
        ),
        Message(
            id="binaries-unknown-name",
            error=UserError,
            text="{option}: there is no {what} called {name}{nearest}",
            remedy="use one of: {known}",
        ),
        Message(
            id="binaries-named-twice",
            error=UserError,
            text="{option}: {name} is named twice",
            remedy="keep one of the two entries",
        ),
        Message(
            id="binaries-family-not-chosen",
            error=UserError,
            text="{option}: {name} belongs to family {family}, which is not in families",
            remedy="add {family} to families, or remove the component",
        ),
        Message(
            id="binaries-path-absent",
            error=UserError,
            text="{option}: source path needs a path",
            remedy="set path to the directory that holds the programs",
        ),
        Message(
            id="binaries-path-unused",
            error=UserError,
            text="{option}: path is set, but the source is {source}",
            remedy="set source to path, or remove the path",
        ),
        Message(
            id="binaries-not-absolute",
            error=UserError,
            text="{option}: {path} is not an absolute path",
            remedy="write it from the root on, such as /var/cache/ballast/binaries",
        ),
        Message(
            id="binaries-path-missing",
            error=UserError,
            text="{option}: {path} lacks {names}",
            remedy="put the programs there, or choose another source for these components",
        ),
        Message(
            id="binaries-not-released",
            error=UserError,
            text="{option}: upstream does not publish {name}",
            remedy="use source go or path for it",
        ),
        Message(
            id="binaries-checksum-form",
            error=UserError,
            text="{option}: {value} is not a SHA-256",
            remedy="write 64 hexadecimal digits",
        ),
        Message(
            id="binaries-url-form",
            error=UserError,
            text="{option}: {url} is not an http or https address",
            remedy="write the address that stands in for {base}",
        ),
        Message(
            id="binaries-no-toolchain",
            error=UserError,
            text="{option}: source go needs the directory of pinned Go modules, and {path} is none",
            remedy="set toolchain_dir to files/toolchain of the role kubernetes_binaries",
        ),
        Message(
            id="binaries-go-missing",
            error=HostError,
            text="building from Go modules needs Go {needs} or later, and there is no go command",
            remedy="install Go from https://go.dev/dl/ (it is looked for in PATH and in /usr/local/go/bin), "
            "set the option go, or use source release or path",
        ),
        Message(
            id="binaries-go-too-old",
            error=HostError,
            text="{family} {version} needs Go {needs} or later",
            remedy="install Go {needs}, or let it fetch that version itself: go env -w GOTOOLCHAIN=auto",
        ),
        Message(
            id="binaries-disk",
            error=HostError,
            text="{what} needs {needs} MiB free at {path}",
            remedy="free space there, or move it: GOCACHE and GOMODCACHE for builds, the option cache_dir for results",
        ),
        Message(
            id="binaries-modules",
            error=PeerError,
            text="the Go modules of {name} {version} could not be fetched",
            remedy="see that this machine reaches the module proxy in `go env GOPROXY`, then run the same command again",
        ),
        Message(
            id="binaries-build",
            error=HostError,
            text="{name} {version} does not build",
            remedy="report it with the output of `go env` and the lines above",
        ),
        Message(
            id="binaries-build-killed",
            error=HostError,
            text="the compiler of {name} {version} was killed, which the kernel does when memory runs out",
            remedy="give the machine 4 GiB of free memory, or use source release",
        ),
        Message(
            id="binaries-build-disk-full",
            error=HostError,
            text="the disk became full while {name} {version} was built",
            remedy="free space where `go env GOCACHE` points; the next run goes on from what is built",
        ),
        Message(
            id="binaries-download",
            error=PeerError,
            text="{url} could not be downloaded",
            remedy="see that this machine reaches it, set release_urls to a mirror, or use another source",
        ),
        Message(
            id="binaries-download-plain",
            error=PeerError,
            text="{url} leads to another protocol than https, where anybody on the way can replace what is sent",
            remedy="name a mirror in release_urls that is https to its end, or one whose own address begins with http://, on purpose",
        ),
        Message(
            id="binaries-download-large",
            error=PeerError,
            text="{url} is larger than any file of a release; the download was ended",
            remedy="compare the mirror in release_urls with upstream",
        ),
        Message(
            id="binaries-archive-damaged",
            error=PeerError,
            text="{url} cannot be unpacked",
            remedy="compare the mirror in release_urls, and the option checksums, with upstream",
        ),
        Message(
            id="binaries-download-checksum",
            error=PeerError,
            text="{url} is not the file whose checksum is known; it was thrown away",
            remedy="run the same command again; if it stays so, compare the mirror in release_urls with upstream",
        ),
        Message(
            id="binaries-no-checksum",
            error=PeerError,
            text="{url} holds no SHA-256 for {file}",
            remedy="set checksums for it, or use a mirror that keeps upstream's checksum files",
        ),
        Message(
            id="binaries-archive-member",
            error=PeerError,
            text="{url} has no program {name}",
            remedy="see that the mirror in release_urls keeps upstream's archives unchanged",
        ),
        Message(
            id="binaries-version-output",
            error=HostError,
            text="{name}: its version is not {needs}",
            remedy="use programs of that version, made for this machine's architecture",
        ),
        Message(
            id="binaries-damaged",
            error=HostError,
            text="{path} is no longer what was put there: its SHA-256 differs",
            remedy="remove it and run the same command again, which makes it again: rm {path}",
        ),
        Message(
            id="binaries-manifest",
            error=HostError,
            text="{path} cannot be read as a manifest",
            remedy="remove its directory and run the same command again, which makes the programs again: rm -r {directory}",
        ),
        Message(
            id="binaries-smoke",
            error=HostError,
            text="{name} was built, but does not serve: {reason}",
            remedy="build with the Go version that upstream uses for this release (its go.mod names the minor version)",
        ),
        Message(
            id="binaries-link",
            error=HostError,
            text="{path} does not lead to a program",
            remedy="run the same command again",
        ),
    ],
)
