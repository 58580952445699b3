# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about invalid kubeconfigs and refusals of an API server."""

from __future__ import annotations

from .errors import PAGE, HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    PAGE,
    [
        Message(
            id="core-kubeconfig",
            error=UserError,
            text="{path}: {problem}",
            remedy="use a kubeconfig whose current context has a server, its authority, and a client certificate or a token",
        ),
        Message(
            id="core-kubeconfig-none",
            error=UserError,
            text="no kubeconfig and no ServiceAccount was found to reach the API server",
            remedy="set the option kubeconfig, or set KUBECONFIG in the environment of the task",
        ),
        Message(
            id="core-kubeconfig-library",
            error=HostError,
            text="{path}: {needed_for} needs {package}",
            remedy="install it for the Python that runs the module: {command}",
        ),
        Message(
            id="core-kubeconfig-plugin",
            error=UserError,
            text="{path}: {needed_for} does not give access to the API server",
            remedy="check that kubectl --kubeconfig {path} get --raw /version works for the user that runs the module",
        ),
        Message(
            id="core-api-forbidden",
            error=PeerError,
            text="{method} {path}: {server} returned status {status}",
            remedy="use a kubeconfig whose user the server authenticates and authorizes for this",
        ),
        Message(
            id="core-api-absent",
            error=PeerError,
            text="{method} {path}: {server} returned status {status}",
            remedy="check the name and the namespace, and that the server serves this version",
        ),
        Message(
            id="core-api-conflict",
            error=PeerError,
            text="{method} {path}: {server} returned status {status}",
            remedy="run the same command again: another client changed the object at the same time",
        ),
        Message(
            id="core-api-gone",
            error=PeerError,
            text="{method} {path}: {server} returned status {status}",
            remedy="list again, then watch from that version",
        ),
        Message(
            id="core-api-refused",
            error=PeerError,
            text="{method} {path}: {server} returned status {status}",
            remedy="fix the problem that the server reports",
        ),
        Message(
            id="core-api-answer",
            error=PeerError,
            text="{method} {path}: the response is not from an API server",
            remedy="find which other program listens at the kubeconfig's server address",
        ),
        Message(
            id="core-api-watch",
            error=PeerError,
            text="the watch of {path} ended with an unexpected error, and is started again",
            remedy="if it happens again, report it with the error",
        ),
    ],
)
