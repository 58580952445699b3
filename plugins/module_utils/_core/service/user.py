# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A system user that runs one of our services. It has no home, shell or password, and owns no files."""

from __future__ import annotations

from typing import Any, Optional

from ..engine.context import Context
from ..engine.ownership import taken_error
from ..engine.plan import ABSENT, Resource, Value
from ..host.host import Host

MARK = "made by ballast.kube"  # its comment field; a user without it is not ours
_ABSENT_STATUS = 2  # getent(1)
_OURS: Value = {"comment": MARK}
_SECONDS = 30


class SystemUserKind:
    """`{comment}`, with a group of the same name. Looked up with getent(1), since /etc/passwd does not list every user."""

    exclusive = True  # a user that we did not make is never used

    def read(self, ctx: Context[Any], target: str) -> Value:
        user, group = _entry(ctx.host, "passwd", target), _entry(ctx.host, "group", target)
        if user is None:
            return ABSENT if group is None else {"comment": "", "group": True}
        comment = user[4] if len(user) > 4 else ""
        return {"comment": comment} if group is not None else {"comment": comment, "group": False}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if before != ABSENT:  # a part that a killed run left
            self.remove(ctx, target, before)
        if after != _OURS:  # an undo: what existed before was not ours
            return
        words = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        ctx.host.run([*words, "--shell", "/usr/sbin/nologin", "--comment", MARK, target], timeout=_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        user = _entry(ctx.host, "passwd", target)
        if user is not None:
            if MARK not in user:
                raise taken_error(f"user {target}", "its comment lacks this collection's mark")
            ctx.host.run(["userdel", target], timeout=_SECONDS)
        if _entry(ctx.host, "group", target) is not None:  # if userdel has left it
            ctx.host.run(["groupdel", target], timeout=_SECONDS)


USER_KINDS = {"system-user": SystemUserKind()}


def system_user(name: str, *, group: str) -> Resource:
    return Resource("system-user", name, _OURS, title=f"user {name}", group=group)


def _entry(host: Host, database: str, name: str) -> Optional[list[str]]:
    done = host.run(["getent", database, name], timeout=_SECONDS, check=False)
    if done.status not in (0, _ABSENT_STATUS):
        host.run(["getent", database, name], timeout=_SECONDS)  # fails again, and so raises an error with its output
    return done.stdout.rstrip("\n").split(":") if done.status == 0 else None
