# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors of the pull proxy."""

from __future__ import annotations

from ..._agent.identity import Agent, program_rows
from ..._core.text.errors import HostError, Message, Messages, UserError

_NAME, _WHAT, _IDS = "ballast-pull-proxy", "pull proxy", "pulls"
MESSAGES = Messages(
    "docs/reference/errors-pull-proxy.md",
    [
        *program_rows(_IDS, name=_NAME, what=_WHAT, role="image_pull_proxy"),
        Message(
            id="pulls-limit",
            error=UserError,
            text="{path}: {value} is not a number of pulls",
            remedy="set a whole number of 1 or more, or 0 for no limit",
        ),
        Message(
            id="pulls-path",
            error=UserError,
            text="{path}: {value} is not the path of a unix socket",
            remedy="write /run/NAME.sock or unix:///run/NAME.sock: absolute, without . and .. and empty parts, of letters, digits and ._-+=,:@~!$&'()*;",
        ),
        Message(
            id="pulls-path-length",
            error=UserError,
            text="{path}: {value} has {length} bytes, and the kernel takes a unix socket's path of at most {most}",
            remedy="choose a shorter path",
        ),
        Message(
            id="pulls-socket-twice",
            error=UserError,
            text="{path}: {value} is the socket of {other} too",
            remedy="give each listener a socket of its own",
        ),
        Message(
            id="pulls-name-twice",
            error=UserError,
            text="{path}: {value} is the name of {other} too",
            remedy="give each listener a name of its own",
        ),
        Message(
            id="pulls-loop",
            error=UserError,
            text="{path}: {value} is also {other}, so that the proxy would ask itself",
            remedy="name the socket where the container runtime itself listens as runtime",
        ),
        Message(
            id="pulls-files",
            error=HostError,
            text="the pull proxy may have too few files open for its listeners: it needs {needed}",
            remedy="raise the hard limit of open files of its service: LimitNOFILE= in systemd, ulimit -Hn",
        ),
        Message(
            id="pulls-running",
            error=HostError,
            text="another pull proxy runs on this host, and a limit of the host can be kept by one alone",
            remedy="add the listener to that one's configuration, or end it",
        ),
    ],
)
AGENT = Agent(_NAME, _WHAT, _IDS, MESSAGES)
