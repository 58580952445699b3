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
            remedy="choose such a path; whatever file is there is replaced",
        ),
        Message(
            id="image-none",
            error=UserError,
            text="images, definitions: nothing to put into {path}",
            remedy="name at least one image",
        ),
        Message(
            id="image-name",
            error=UserError,
            text="{where}: {name} is not a full image name such as registry.example/app:1",
            remedy="write registry host, path and tag, in lower case",
        ),
        Message(
            id="image-name-twice",
            error=UserError,
            text="{where}: {name} is the name of two images",
            remedy="give each image a name of its own",
        ),
        Message(
            id="image-package",
            error=UserError,
            text="{where}: {package} is not a Debian package name, with or without =VERSION",
            remedy="write it as apt-get does: busybox-static or busybox-static=1:1.37.0-6",
        ),
        Message(
            id="image-suite",
            error=UserError,
            text="suite: {suite} is not the name of a Debian suite",
            remedy="write it as in Debian's sources.list: trixie",
        ),
        Message(
            id="image-file",
            error=UserError,
            text="{where}: a file needs an absolute path, and one of source and local, absolute paths, and content",
            remedy="set path, and one of source, local and content",
        ),
        Message(
            id="image-file-twice",
            error=UserError,
            text="{where}: {path} is given twice, or is also the directory of another file",
            remedy="give each path once",
        ),
        Message(
            id="image-directory",
            error=UserError,
            text="{where}: {path} is not the absolute path of a directory",
            remedy="write it from the root on, without . and ..",
        ),
        Message(
            id="image-mode",
            error=UserError,
            text="{where}: {mode} is not a mode of four octal digits, of which the first is 0 or 1",
            remedy="write it in quotes: '0755', or '1777' for a directory in which each user removes its own files alone",
        ),
        Message(
            id="image-user",
            error=UserError,
            text="{where}: {user} is not a user of an image",
            remedy="write a name or a number, and a group after a colon where one is meant: 1000 or 1000:0",
        ),
        Message(
            id="image-env",
            error=UserError,
            text="{where}: {name} is not the name of an environment variable",
            remedy="use letters, digits and _, not beginning with a digit",
        ),
        Message(
            id="image-bin-dir",
            error=UserError,
            text="bin_dir: {value!r} is not the absolute path of a directory, and the image {image} needs one",
            remedy="name the directory of the programs",
        ),
        Message(
            id="image-names",
            error=UserError,
            text="names: {preset} is not one of the images in this archive ({chosen})",
            remedy="add it to images, or leave its name out",
        ),
        Message(
            id="image-program",
            error=HostError,
            text="image {image}: there is no program {program}",
            remedy="provide it: ansible-playbook ballast.kube.kubernetes_binaries",
        ),
        Message(
            id="image-local",
            error=UserError,
            text="image {image}: at {path} is {what}",
            remedy="name a file or a directory of this machine, of files, directories and links",
        ),
        Message(
            id="image-local-large",
            error=UserError,
            text="image {image}: in {path} is more than {most}",
            remedy="name a directory with what the image needs and no more",
        ),
        Message(
            id="image-local-changed",
            error=HostError,
            text="image {image}: what is in {path} has changed while the image was built",
            remedy="run it again when nothing writes there",
        ),
        Message(
            id="image-source-missing",
            error=UserError,
            text="image {image}: none of the packages {packages} has the file {source}",
            remedy="see what they hold: dpkg-deb --contents PACKAGE.deb",
        ),
        Message(
            id="image-fetch",
            error=HostError,
            text="package {package} could not be fetched",
            remedy="refresh the package lists with apt-get update and see that the package exists: "
            "apt-cache policy {name}",
        ),
        Message(
            id="image-architecture",
            error=HostError,
            text="Debian architecture {architecture} has no known name for images",
            remedy="build the archive on another machine",
        ),
        Message(
            id="image-archive-missing",
            error=UserError,
            text="{path}: no such file",
            remedy="give the path of an image archive, as docker save or the module image_archive write it",
        ),
        Message(
            id="image-archive-damaged",
            error=UserError,
            text="{path}: not an image archive, or a damaged one",
            remedy="write it again: docker save --output FILE.tar NAME:TAG",
        ),
        Message(
            id="image-archive-others",
            error=HostError,
            text="{path} is not an archive that this module wrote: it is neither replaced nor removed",
            remedy="name another path, or remove the file yourself when nothing needs it",
        ),
        Message(
            id="image-archive-unnamed",
            error=UserError,
            text="{path}: no image in it has a full name",
            remedy="save it by name, not by id: docker save --output FILE.tar NAME:TAG",
        ),
    ],
)
