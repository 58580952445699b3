# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ballast-service-proxy as the proxy of an instance, in place of kube-proxy.

STATE_DIR/NAME/ballast-service-proxy.pyz    the program, which the instance's mount namespace shows
/run/ballast/LAB/NAME.service-proxy         its sockets
rules of Services in NETNS                  which proxy made them; a change of proxy removes those of the former one
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Optional

from .._agent.installation import PYTHON
from .._agent.program import program, sources_digest
from .._core.engine.context import Context
from .._core.engine.kinds import fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.text.errors import BallastError
from .._core.text.packages import install_command, read_distribution
from .model import KUBE_PROXY, SERVICE_PROXY, Instance, InstancesRequest
from .network import is_namespace_mount, netns_path
from .places import home_of, service_proxy_directory, service_target

if TYPE_CHECKING:
    # Ansible ships a node only the imported files, and the program is built from them there. The module runs none of it.
    from .._service_proxy import main  # noqa: F401
    from .._service_proxy.deployment.installation import ServiceProxyInstallation

_CLEANUP_SECONDS = 120


def command(home: str) -> tuple[str, ...]:
    """The command line. `home` is the instance's directory."""
    return (PYTHON, "-I", _program_path(home), "--config", f"{home}/etc/service-proxy.json")


def environment(lab: str, instance: Instance) -> dict[str, str]:
    """Variables of the process: where its sockets are."""
    return {"RUNTIME_DIRECTORY": service_proxy_directory(lab, instance.name)}


def sources() -> str:
    """A digest of the program's sources."""
    made = _installation()
    return sources_digest(made.main, made.packages)


def service_proxy_resources(desired: InstancesRequest, instance: Instance, *, group: str) -> list[Resource]:
    """What the proxy's service needs; empty when the instance has kube-proxy."""
    if instance.proxy != SERVICE_PROXY:
        return []
    path, netns, made = service_proxy_directory(desired.lab, instance.name), desired.unit(instance), _installation()
    rules: Value = {"made_by": SERVICE_PROXY}
    return [
        program(_program_path(home_of(desired, instance)), packages=made.packages, main=made.main, group=group),
        Resource("run-directory", path, {"mode": 0o700}, title=f"directory {path}", group=group),
        Resource("service-rules", netns, rules, title=f"rules of Services in {netns}", group=group),
    ]


def find_missing_packages(host: Host) -> list[BallastError]:
    """At most one error, naming what ballast-service-proxy needs and this machine lacks."""
    installation = _installation()
    missing = installation.missing(host)
    if not missing:
        return []
    fix = install_command(read_distribution(host), missing.values())
    return [installation.agent.error("deploy-packages", modules=", ".join(missing), command=fix)]


class ServiceRulesKind:
    """`{made_by}`, KUBE_PROXY or SERVICE_PROXY: which proxy made the Service rules of a network namespace, judged by its installed
    service. The target is the namespace's name. Rules of kube-proxy are no resource: it finds them itself when it starts."""

    def read(self, ctx: Context[InstancesRequest], target: str) -> Value:
        if not is_namespace_mount(ctx.host, netns_path(target)):
            return ABSENT
        instance = _find(ctx, target)
        is_ours = instance is not None and ctx.host.stat(_service(ctx, instance)) is not None
        return {"made_by": SERVICE_PROXY if is_ours else KUBE_PROXY}

    def write(self, ctx: Context[InstancesRequest], target: str, after: Value, before: Value) -> None:
        """Remove the former proxy's rules; the service that starts next makes its own. A new namespace has none to remove."""
        if fields(after)["made_by"] == KUBE_PROXY:
            self.remove(ctx, target, before)
        elif before != ABSENT:
            _run_inside(ctx, target, [f"{ctx.desired.bin_dir}/kube-proxy", "--cleanup"])

    def remove(self, ctx: Context[InstancesRequest], target: str, before: Value) -> None:
        """Remove the rules unless the namespace is removed as well."""
        instance = _find(ctx, target)
        if instance is None or instance.stopped or not is_namespace_mount(ctx.host, netns_path(target)):
            return
        ours = [PYTHON, "-I", _program_path(home_of(ctx.desired, instance)), "--cleanup"]
        _run_inside(ctx, target, ours, env=environment(ctx.desired.lab, instance))


SERVICE_RULES_KINDS = {"service-rules": ServiceRulesKind()}


def _find(ctx: Context[InstancesRequest], netns: str) -> Optional[Instance]:
    """The instance that has the namespace; None when it is to be removed."""
    if ctx.desired.state != "present":
        return None
    return next((instance for instance in ctx.desired.instances if ctx.desired.unit(instance) == netns), None)


def _service(ctx: Context[InstancesRequest], instance: Instance) -> str:
    return service_target(ctx.desired, instance, SERVICE_PROXY)


def _run_inside(
    ctx: Context[InstancesRequest], netns: str, argv: Sequence[str], *, env: Optional[Mapping[str, str]] = None
) -> None:
    ctx.host.run(["nsenter", f"--net={netns_path(netns)}", "--", *argv], timeout=_CLEANUP_SECONDS, env=env or {})


def _program_path(home: str) -> str:
    return os.path.join(home, "ballast-service-proxy.pyz")


def _installation() -> ServiceProxyInstallation:
    # Imported only for an instance that uses it: this takes as long as all other imports of this package together.
    from .._service_proxy.deployment.installation import INSTALLATION

    return INSTALLATION
