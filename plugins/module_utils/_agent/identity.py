# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of our long-running programs, and the messages that all of them have.

Each program has its own message table, with ids of its own: `pulls-config`, `balloon-agent-config`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._core.text.errors import BallastError, HostError, Message, Messages, PeerError, UserError


@dataclass(frozen=True)
class Agent:
    name: str  # of the command, its service, its directories: "ballast-pull-proxy"
    what: str  # in messages: "pull proxy"
    ids: str  # prefix of its message ids: "pulls"
    messages: Messages

    @property
    def short(self) -> str:
        """The name of its files in directories that our programs share: "pull-proxy"."""
        return self.name.partition("-")[2]

    def error(self, id: str, *, found: str = "", **fields: object) -> BallastError:
        """An error of this program; `id` is without the prefix."""
        return self.messages.error(f"{self.ids}-{id}", found=found, **fields)


def program_rows(ids: str, *, name: str, what: str, role: str) -> list[Message]:
    """The messages about settings, the program's directory and its service. `role` is the role that installs it."""
    fix = f"fix the file; `{name} check --config FILE` checks it"
    rows = [
        (UserError, "shape", "{path} is not a mapping of settings", fix),
        (UserError, "key", "{path}: unknown setting {key}; allowed: {allowed}", "{hint}"),
        (UserError, "missing", "{path} is required but not set", "set it to {wanted}"),
        (UserError, "value", "{path}: {value} is not {wanted}", fix),
        (
            UserError,
            "duration",
            "{path}: {value} is not a duration",
            "write it like 500ms, 10s, 1m, 1m30s or 1h; 0s is allowed, negative values are not",
        ),
        (
            UserError,
            "metrics",
            "{path}: {value} is not a loopback address with a port",
            "write 127.0.0.1:PORT, [::1]:PORT or localhost:PORT, with a port of 1 to 65535",
        ),
        (UserError, "config", "{path} cannot be read", f"pass the configuration of the {what} with --config FILE"),
        (
            HostError,
            "library",
            "the Python package {module} is not installed on this machine",
            "install its package ({package} on Debian)",
        ),
        (
            HostError,
            "no-run-directory",
            f"there is no directory for the lock of the {what}: this user is not root, and XDG_RUNTIME_DIR is not set",
            "run it as root, or set XDG_RUNTIME_DIR to a private directory of this user",
        ),
        (
            HostError,
            "directory",
            "{path} cannot be used as a directory for sockets",
            f"use a directory that exists or can be created, and that only the {what} uses",
        ),
        (
            UserError,
            "directory-open",
            "other users may enter directory {path}, but its sockets must be private to their owner",
            f"chmod 0700 {{path}}, or give the sockets a directory of their own, which the {what} makes",
        ),
        (
            UserError,
            "directory-owner",
            f"{{path}} does not belong to user {{user}}, as whom the {what} runs",
            f"chown {{user}} {{path}}, or give the sockets a directory of their own, which the {what} makes",
        ),
        (
            UserError,
            "not-a-socket",
            "{path} exists and is not a socket",
            "choose another path for the socket, or remove that file",
        ),
        (
            HostError,
            "socket-held",
            "another process listens on {path}",
            "find it with `ss -xlp` and stop it, or choose another path for the socket",
        ),
        (HostError, "bind", f"the {what} cannot listen on {{path}}", "check that its directory is writable"),
        (
            HostError,
            "not-running",
            f"no {what} answers at {{path}}",
            f"check its service and its log; start it with `{name} --config FILE`",
        ),
        (
            HostError,
            "metrics-taken",
            f"the {what} cannot listen on {{address}} for its metrics",
            "choose another port for metrics, or omit the key",
        ),
        (
            HostError,
            "deploy-packages",
            f"/usr/bin/python3 of this machine lacks what the {what} runs on: {{modules}}",
            f"install it: {{command}}; the role ballast.kube.{role} does",
        ),
        (
            PeerError,
            "deploy-settings",
            f"the {what} does not work with the settings of {{path}} within {{seconds}} seconds",
            f"see its log, {{log}}, and what `{name} check --config {{path}}` says",
        ),
    ]
    return [Message(id=f"{ids}-{id}", error=error, text=text, remedy=remedy) for error, id, text, remedy in rows]
