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
            remedy="see ansible-doc ballast.kube.control_plane; an option that is given again replaces the recorded value",
        ),
        Message(
            id="plane-option-unknown",
            error=UserError,
            text="plane_{name}: there is no such variable{nearest}",
            remedy="see docs/control-plane.md for those of a control plane",
        ),
        Message(
            id="plane-version-unbuilt",
            error=UserError,
            text="kubernetes_version: {value} cannot be built; there are {versions}",
            remedy="choose one of them, or take the programs from elsewhere: -e plane_source=release",
        ),
        Message(
            id="plane-name-taken",
            error=UserError,
            text="name: {name} is already the name of a control plane or lab on this host, in {directory}",
            remedy="choose another name: -e plane_name=NAME",
        ),
        Message(
            id="plane-fixed",
            error=UserError,
            text="name: {value} is not that of the control plane in this directory, {recorded}",
            remedy="leave the name out, or choose another directory for another control plane",
        ),
        Message(
            id="plane-ports-used-up",
            error=HostError,
            text="no free ports on {address}, from {first} to {last}",
            remedy="remove a control plane that is not needed, or give an address of its own: -e plane_address=ADDRESS",
        ),
        Message(
            id="plane-record",
            error=HostError,
            text="{path} is not the record of a control plane",
            remedy="remove that file if it is not ours, or restore it",
        ),
        Message(
            id="plane-none",
            error=UserError,
            text="there is no control plane in {directory}",
            remedy="make one: ansible-playbook ballast.kube.control_plane -e plane_dir={directory}; or name another: -e plane_name=NAME. "
            "Labs and control planes of this host: {names}",
        ),
        Message(
            id="plane-left",
            error=HostError,
            text="{count} resources of the control plane {name} were left behind",
            remedy="run ansible-playbook ballast.kube.control_plane_down again; what is left then is in use by another program",
        ),
    ],
)
