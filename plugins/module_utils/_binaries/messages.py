# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors about binaries: id, text and remedy."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-binaries.md",
    [
        Message(
            id="binaries-unknown-version",
            error=UserError,
            text="{option}: this collection has no pinned Go module of {family} {version}; supported: {supported}",
            remedy="use a supported version, or get the binaries with source release or path",
        ),
        Message(
            id="binaries-version-form",
            error=UserError,
            text="{option}: {version} is not a version",
            remedy="write three numbers, such as 1.37.1",
        ),
        Message(
            id="binaries-unknown-name",
            error=UserError,
            text="{option}: unknown {what} {name}{nearest}",
            remedy="use one of: {known}",
        ),
        Message(
            id="binaries-named-twice",
            error=UserError,
            text="{option}: {name} is listed twice",
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
            remedy="set path to the directory that contains the binaries",
        ),
        Message(
            id="binaries-path-unused",
            error=UserError,
            text="{option}: path is set, but source is {source}",
            remedy="set source to path, or remove the path",
        ),
        Message(
            id="binaries-not-absolute",
            error=UserError,
            text="{option}: {path} is not an absolute path",
            remedy="write a path that begins with /, such as /var/cache/ballast/binaries",
        ),
        Message(
            id="binaries-path-missing",
            error=UserError,
            text="{option}: {path} lacks {names}",
            remedy="copy the binaries there, or choose another source for these components",
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
            remedy="write the address of a mirror of {base}",
        ),
        Message(
            id="binaries-no-toolchain",
            error=UserError,
            text="{option}: source go needs the directory of pinned Go modules, which {path} is not",
            remedy="set toolchain_dir to files/toolchain of the role kubernetes_binaries",
        ),
        Message(
            id="binaries-go-missing",
            error=HostError,
            text="building from Go modules needs Go {needs} or later, but no go command was found",
            remedy="install Go from https://go.dev/dl/ (searched in PATH and /usr/local/go/bin), set the option go, or use source release or path",
        ),
        Message(
            id="binaries-go-too-old",
            error=HostError,
            text="{family} {version} needs Go {needs} or later",
            remedy="install Go {needs}, or let the go command download it: go env -w GOTOOLCHAIN=auto",
        ),
        Message(
            id="binaries-disk",
            error=HostError,
            text="{what} needs {needs} MiB free at {path}",
            remedy="free space there, or use another disk: GOCACHE and GOMODCACHE for builds, the option cache_dir for results",
        ),
        Message(
            id="binaries-modules",
            error=PeerError,
            text="the Go modules of {name} {version} could not be fetched",
            remedy="check that this machine can reach the module proxy in `go env GOPROXY`, then run the same command again",
        ),
        Message(
            id="binaries-build",
            error=HostError,
            text="building {name} {version} failed",
            remedy="report it with the output of `go env` and the lines above",
        ),
        Message(
            id="binaries-build-killed",
            error=HostError,
            text="the compiler of {name} {version} was killed, probably because memory ran out",
            remedy="provide 4 GiB of free memory, or use source release",
        ),
        Message(
            id="binaries-build-disk-full",
            error=HostError,
            text="the disk filled up during the build of {name} {version}",
            remedy="free space where `go env GOCACHE` points; the next run continues with the finished parts",
        ),
        Message(
            id="binaries-download",
            error=PeerError,
            text="{url} could not be downloaded",
            remedy="check that this machine can reach it, set release_urls to a mirror, or use another source",
        ),
        Message(
            id="binaries-download-plain",
            error=PeerError,
            text="{url} redirects to a protocol other than https, where the download could be replaced on its way",
            remedy="set release_urls to a mirror that redirects only to https; to accept http, write a mirror address that begins with http://",
        ),
        Message(
            id="binaries-download-large",
            error=PeerError,
            text="{url} is larger than any file of a release, so the download was stopped",
            remedy="compare the mirror in release_urls with upstream",
        ),
        Message(
            id="binaries-archive-damaged",
            error=PeerError,
            text="{url} cannot be unpacked",
            remedy="compare the mirror in release_urls and the option checksums with upstream",
        ),
        Message(
            id="binaries-download-checksum",
            error=PeerError,
            text="{url} does not match its checksum; the download was deleted",
            remedy="run the same command again; if it fails again, compare the mirror in release_urls with upstream",
        ),
        Message(
            id="binaries-no-checksum",
            error=PeerError,
            text="{url} contains no SHA-256 for {file}",
            remedy="set checksums for it, or use a mirror that keeps upstream's checksum files",
        ),
        Message(
            id="binaries-archive-member",
            error=PeerError,
            text="{url} lacks the binary {name}",
            remedy="check that the mirror in release_urls serves upstream's unchanged archives",
        ),
        Message(
            id="binaries-version-output",
            error=HostError,
            text="{name} does not have version {needs}",
            remedy="use binaries of that version for this machine's architecture",
        ),
        Message(
            id="binaries-damaged",
            error=HostError,
            text="{path} changed after it was installed: its SHA-256 differs",
            remedy="remove it and run the same command again, which creates it again: rm {path}",
        ),
        Message(
            id="binaries-manifest",
            error=HostError,
            text="{path} cannot be read as a manifest",
            remedy="remove its directory and run the same command again, which creates the binaries again: rm -r {directory}",
        ),
        Message(
            id="binaries-smoke",
            error=HostError,
            text="{name} was built but does not work: {reason}",
            remedy="build with the Go version that upstream uses for this release (see its go.mod for the minor version)",
        ),
        Message(
            id="binaries-link",
            error=HostError,
            text="{path} is not a link to a binary",
            remedy="run the same command again",
        ),
    ],
)
