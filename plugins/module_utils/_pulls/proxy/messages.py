# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong with the pull proxy, in one table."""

from __future__ import annotations

from ..._core.errors import HostError, Message, Messages, UserError

_MEND = "mend the file; `ballast-pull-proxy check --config FILE` says whether it is in order"

MESSAGES = Messages(
    "docs/pull-proxy.md",
    [
        Message(id="pulls-shape", error=UserError, text="{path} is no mapping of settings", remedy=_MEND),
        Message(
            id="pulls-key",
            error=UserError,
            text="{path}: there is no setting {key}; there are {allowed}",
            remedy="{hint}",
        ),
        Message(
            id="pulls-missing",
            error=UserError,
            text="{path} is not set, and has no default",
            remedy="set it to {wanted}",
        ),
        Message(
            id="pulls-value",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy=_MEND,
        ),
        Message(
            id="pulls-limit",
            error=UserError,
            text="{path}: {value} is not a number of pulls",
            remedy="set a whole number of 1 or more, or 0 for no limit",
        ),
        Message(
            id="pulls-duration",
            error=UserError,
            text="{path}: {value} is not a duration",
            remedy="write it as 500ms, 10s, 1m, 1m30s or 1h; it may be 0s, and not negative",
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
            id="pulls-metrics",
            error=UserError,
            text="{path}: {value} is not an address of this machine alone with a port",
            remedy="write 127.0.0.1:PORT, [::1]:PORT or localhost:PORT, with a port of 1 to 65535",
        ),
        Message(
            id="pulls-config",
            error=UserError,
            text="{path} cannot be read",
            remedy="name the proxy's configuration with --config FILE",
        ),
        Message(
            id="pulls-library",
            error=HostError,
            text="the Python package {module} is not on this machine",
            remedy="install it: apt-get install {package}",
        ),
        Message(
            id="pulls-no-run-directory",
            error=HostError,
            text="there is no directory for the proxy's lock: this user is not root, and XDG_RUNTIME_DIR is not set",
            remedy="run it as root, or set XDG_RUNTIME_DIR to a directory of this user alone",
        ),
        Message(
            id="pulls-directory",
            error=HostError,
            text="{path} cannot be used as a directory for sockets",
            remedy="name a directory that can be made, or is there, for the proxy alone",
        ),
        Message(
            id="pulls-directory-open",
            error=UserError,
            text="{path} is a directory that others may enter, and who reaches a socket of the proxy can use the runtime",
            remedy="chmod 0700 {path}, or give the sockets a directory of their own, which the proxy makes",
        ),
        Message(
            id="pulls-directory-owner",
            error=UserError,
            text="{path} does not belong to user {user}, as whom the proxy runs",
            remedy="chown {user} {path}, or give the sockets a directory of their own, which the proxy makes",
        ),
        Message(
            id="pulls-not-a-socket",
            error=UserError,
            text="{path} is there, and is no socket",
            remedy="choose another path for the listener, or remove that file",
        ),
        Message(
            id="pulls-socket-held",
            error=HostError,
            text="another process listens on {path}",
            remedy="find it with `ss -xlp`, and end it, or choose another path for the listener",
        ),
        Message(
            id="pulls-bind",
            error=HostError,
            text="the proxy cannot listen on {path}",
            remedy="see that its directory can be written to",
        ),
        Message(
            id="pulls-running",
            error=HostError,
            text="another pull proxy runs on this host, and a limit of the host can be kept by one alone",
            remedy="add the listener to that one's configuration, or end it",
        ),
        Message(
            id="pulls-not-running",
            error=HostError,
            text="no pull proxy answers at {path}",
            remedy="see its service and its log; start it with `ballast-pull-proxy --config FILE`",
        ),
        Message(
            id="pulls-metrics-taken",
            error=HostError,
            text="the proxy cannot listen on {address} for its metrics",
            remedy="choose another port as metrics, or leave the key out",
        ),
    ],
)
