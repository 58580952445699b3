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
            remedy="write /run/NAME.sock or unix:///run/NAME.sock: absolute, without . and .. and empty parts, of letters, digits and "
            "._-+=,:@~!$&'()*;",
        ),
        Message(
            id="pulls-path-length",
            error=UserError,
            text="{path}: {value} has {length} bytes, but a unix socket path has at most {most}",
            remedy="choose a shorter path",
        ),
        Message(
            id="pulls-socket-twice",
            error=UserError,
            text="{path}: {value} is also the socket of {other}",
            remedy="give each listener its own socket",
        ),
        Message(
            id="pulls-name-twice",
            error=UserError,
            text="{path}: {value} is also the name of {other}",
            remedy="give each listener its own name",
        ),
        Message(
            id="pulls-loop",
            error=UserError,
            text="{path}: {value} is also {other}, so the proxy would connect to itself",
            remedy="set runtime to the socket where the container runtime listens",
        ),
        Message(
            id="pulls-files",
            error=HostError,
            text="the pull proxy's limit of open files is too low for its listeners: it needs {needed}",
            remedy="increase the hard limit of open files of its service: LimitNOFILE= in systemd, ulimit -Hn",
        ),
        Message(
            id="pulls-running",
            error=HostError,
            text="another pull proxy runs on this host, and only one can enforce the host's limit",
            remedy="add the listener to that one's configuration, or stop that one",
        ),
    ],
)
AGENT = Agent(_NAME, _WHAT, _IDS, MESSAGES)
