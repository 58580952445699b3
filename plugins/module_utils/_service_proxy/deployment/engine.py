# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine of the service proxy on a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..._agent.access import (
    GroupAccessKind,
    closed_directory,
    group_access,
    is_of_another_group,
    is_open_to_all,
    read_access,
)
from ..._agent.deployment import ABSENT, AgentEngine
from ..._agent.privileges import NEEDED
from ..._core.engine.context import Context
from ..._core.engine.engine import Finding
from ..._core.engine.plan import Resource, State
from ..._core.kube.kubeconfig import named_files
from ..._core.service.service import Service
from ..._core.service.user import USER_KINDS, system_user
from ..._core.text.errors import BallastError, Problems
from ..configuration_messages import MESSAGES
from .installation import INSTALLATION
from .request import USER, Deployment
from .rules import RULES_KINDS, rules_resource

if TYPE_CHECKING:
    # Ansible copies to a node what a module imports, and the program is built from that. None of it runs here.
    from .. import main  # noqa: F401


class ServiceProxyEngine(AgentEngine[Deployment]):
    def __init__(self) -> None:
        super().__init__(INSTALLATION)
        self.kinds = {**self.kinds, **RULES_KINDS, **USER_KINDS, "group-access": GroupAccessKind(USER)}

    def wanted(self, ctx: Context[Deployment]) -> list[Resource]:
        resources = super().wanted(ctx)
        return [rules_resource(), *_user_resources(ctx), *resources] if resources else []

    def require(self, ctx: Context[Deployment], state: State) -> None:
        super().require(ctx, state)
        if ctx.desired.state != ABSENT and ctx.desired.user:
            Problems.raise_if(_unreadable(ctx))

    def arguments(self, desired: Deployment) -> tuple[str, ...]:
        flags = {"--service-proxy-name": desired.service_proxy_name, "--user": desired.user}
        return tuple(word for flag, value in flags.items() if value for word in (flag, value))

    def verify(self, ctx: Context[Deployment]) -> list[Finding]:
        about = INSTALLATION.config
        unused = [Finding(each.id, about, each.text, each.remedy, blocking=False) for each in ctx.desired.warnings]
        return [*super().verify(ctx), *unused]

    def _service(self, desired: Deployment) -> Service:
        service = super()._service(desired)
        if not desired.user or service.sandbox is None:
            return service
        capabilities = (*service.sandbox.capabilities, *NEEDED)
        return replace(service, sandbox=replace(service.sandbox, capabilities=capabilities))


ENGINE = ServiceProxyEngine()


def _user_resources(ctx: Context[Deployment]) -> list[Resource]:
    """The user that it runs as, and read access to the kubeconfig for that user."""
    user = ctx.desired.user
    if not user:
        return []
    accesses = [
        group_access(path, user, access, group=INSTALLATION.group)
        for path in _credentials(ctx)
        if (access := read_access(ctx.host, path)) is not None and not is_open_to_all(access)
    ]
    return [system_user(user, group=INSTALLATION.group), *accesses]


def _unreadable(ctx: Context[Deployment]) -> list[BallastError]:
    """What keeps the user from reading the kubeconfig and is not ours to change."""
    problems, user = [], ctx.desired.user
    for path in _credentials(ctx):
        access, closed = read_access(ctx.host, path), closed_directory(ctx.host, path)
        if access is not None and closed:
            reason = f"{closed} denies access to other users"
            problems.append(
                MESSAGES.error("service-proxy-kubeconfig-closed", user=user, path=path, directory=closed, found=reason)
            )
        elif access is not None and not is_open_to_all(access) and is_of_another_group(access, user):
            reason = f"group {access.group}"
            problems.append(MESSAGES.error("service-proxy-kubeconfig-group", user=user, path=path, found=reason))
    return problems


def _credentials(ctx: Context[Deployment]) -> Sequence[str]:
    """The kubeconfig and the files that it refers to, without those that do not exist."""
    path = ctx.desired.kubeconfig
    data = ctx.host.read_trusted(path)
    return () if data is None else (path, *named_files(data, path))
