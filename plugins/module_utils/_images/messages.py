# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors about image archives: id, text and remedy."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-images.md",
    [
        Message(
            id="image-path",
            error=UserError,
            text="path: {path} is not the name of an image archive; use an absolute path that ends in .tar",
            remedy="choose such a path; an existing image archive there is replaced",
        ),
        Message(
            id="image-none",
            error=UserError,
            text="images, definitions: both are empty, so {path} would contain no image",
            remedy="add at least one image",
        ),
        Message(
            id="image-name",
            error=UserError,
            text="{where}: {name} is not a full image name such as registry.example/app:1",
            remedy="write registry host, path and tag in lower case",
        ),
        Message(
            id="image-name-twice",
            error=UserError,
            text="{where}: two images are named {name}",
            remedy="give each image its own name",
        ),
        Message(
            id="image-package",
            error=UserError,
            text="{where}: {package} is not a Debian package name, with or without =VERSION",
            remedy="write it as for apt-get: busybox-static or busybox-static=1:1.37.0-6",
        ),
        Message(
            id="image-suite",
            error=UserError,
            text="suite: {suite} is not the name of a Debian suite",
            remedy="write it as in Debian's sources.list, for example trixie",
        ),
        Message(
            id="image-file",
            error=UserError,
            text="{where}: a file needs an absolute path and exactly one of source, local (both absolute paths) and content",
            remedy="set path, and one of source, local and content",
        ),
        Message(
            id="image-file-twice",
            error=UserError,
            text="{where}: {path} is used twice, or is also the directory of another file",
            remedy="list each path once",
        ),
        Message(
            id="image-directory",
            error=UserError,
            text="{where}: {path} is not the absolute path of a directory",
            remedy="write it from / on, without . and ..",
        ),
        Message(
            id="image-mode",
            error=UserError,
            text="{where}: {mode} is not a mode of four octal digits that begins with 0 or 1",
            remedy="write it in quotes: '0755', or '1777' for a directory in which users can remove only their own files",
        ),
        Message(
            id="image-user",
            error=UserError,
            text="{where}: {user} is not a valid user of an image",
            remedy="write a name or a number, optionally with a group after a colon: 1000 or 1000:0",
        ),
        Message(
            id="image-env",
            error=UserError,
            text="{where}: {name} is not the name of an environment variable",
            remedy="use letters, digits and _, and begin with a letter or _",
        ),
        Message(
            id="image-bin-dir",
            error=UserError,
            text="bin_dir: {value!r} is not the absolute path of a directory, and the image {image} needs one",
            remedy="set bin_dir to the directory of the binaries",
        ),
        Message(
            id="image-names",
            error=UserError,
            text="names: {preset} is not one of the images in this archive ({chosen})",
            remedy="add it to images, or remove it from names",
        ),
        Message(
            id="image-program",
            error=HostError,
            text="image {image}: the binary {program} does not exist",
            remedy="build or download it: ansible-playbook ballast.kube.kubernetes_binaries",
        ),
        Message(
            id="image-local",
            error=UserError,
            text="image {image}: {path} is {what}",
            remedy="use a file, or a directory of files, directories and links, on this machine",
        ),
        Message(
            id="image-local-large",
            error=UserError,
            text="image {image}: {path} contains more than {most}",
            remedy="use a directory that contains only what the image needs",
        ),
        Message(
            id="image-local-changed",
            error=HostError,
            text="image {image}: the content of {path} changed while the image was built",
            remedy="run the same command again when nothing writes there",
        ),
        Message(
            id="image-source-missing",
            error=UserError,
            text="image {image}: none of the packages {packages} contains the file {source}",
            remedy="list their files: dpkg-deb --contents PACKAGE.deb",
        ),
        Message(
            id="image-fetch",
            error=HostError,
            text="package {package} could not be fetched",
            remedy="refresh the package lists with apt-get update, then check that the package exists: apt-cache policy {name}",
        ),
        Message(
            id="image-architecture",
            error=HostError,
            text="the name of Debian architecture {architecture} in image archives is unknown",
            remedy="build the archive on another machine",
        ),
        Message(
            id="image-archive-missing",
            error=UserError,
            text="{path} does not exist",
            remedy="use the path of an image archive that docker save or the module image_archive wrote",
        ),
        Message(
            id="image-archive-damaged",
            error=UserError,
            text="{path} is not an image archive, or it is damaged",
            remedy="write it again: docker save --output FILE.tar NAME:TAG",
        ),
        Message(
            id="image-archive-others",
            error=HostError,
            text="{path} was not written by this module, so it is neither replaced nor removed",
            remedy="choose another path, or remove the file yourself if nothing needs it",
        ),
        Message(
            id="image-archive-unnamed",
            error=UserError,
            text="{path} contains no image with a full name",
            remedy="save the image by name, not by id: docker save --output FILE.tar NAME:TAG",
        ),
    ],
)
