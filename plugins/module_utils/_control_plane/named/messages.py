# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every message of control planes that have a name on this host, by id."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-control-plane.md",
    [
        Message(
            id="plane-option-value",
            error=UserError,
            text="options: {reason}",
            remedy="see ansible-doc ballast.kube.control_plane; a new value of an option replaces the recorded one",
        ),
        Message(
            id="plane-option-unknown",
            error=UserError,
            text="plane_{name}: unknown variable{nearest}",
            remedy="see the list of variables in docs/control-plane.md",
        ),
        Message(
            id="plane-version-unbuilt",
            error=UserError,
            text="kubernetes_version: {value} has no pinned build; pinned: {versions}",
            remedy="choose one of these, or download a release: -e plane_source=release",
        ),
        Message(
            id="plane-name-taken",
            error=UserError,
            text="name: {name} is already used by a control plane or lab on this host, in {directory}",
            remedy="choose another name: -e plane_name=NAME",
        ),
        Message(
            id="plane-fixed",
            error=UserError,
            text="name: {value} differs from the name of the control plane in this directory, {recorded}",
            remedy="omit the name, or choose another directory for a new control plane",
        ),
        Message(
            id="plane-ports-used-up",
            error=HostError,
            text="{address} has no free ports from {first} to {last}",
            remedy="remove an unused control plane, or use another address: -e plane_address=ADDRESS",
        ),
        Message(
            id="plane-record",
            error=HostError,
            text="{path} is not a control plane's record",
            remedy="restore that file, or remove it if another program wrote it",
        ),
        Message(
            id="plane-none",
            error=UserError,
            text="{directory} contains no control plane",
            remedy="create one: ansible-playbook ballast.kube.control_plane -e plane_dir={directory}; or choose another: -e plane_name=NAME. Labs "
            "and control planes of this host: {names}",
        ),
        Message(
            id="plane-left",
            error=HostError,
            text="{count} resources of the control plane {name} were left behind",
            remedy="run ansible-playbook ballast.kube.control_plane_down again; if resources remain, another program uses them",
        ),
    ],
)
