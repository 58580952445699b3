# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our service proxy in place of a node's kube-proxy: mode `ballast`.

Its program, directories and supervisor (`parts`) are resources of the plan that changes the mode, so the journal of the
change removes them too. Its running service and its settings are part of the step that changes kube-proxy (switch.py): one
of the two always serves, and a step that was killed is undone as a whole.

STATE_DIR/held.json names the kube-proxy that is stopped meanwhile, whose service and file no running process reveals.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional

from .._core.engine.context import Context
from .._core.engine.engine import Finding
from .._core.engine.kinds import fields, file
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.engine.wait import wait_until
from .._core.host.host import Host
from .._core.text.errors import BallastError
from .._core.text.json_text import parse_object
from .._service_proxy.messages import AGENT
from . import hold
from .installation import SERVICE, Installation, current_config, process
from .messages import MESSAGES
from .modes import BALLAST

if TYPE_CHECKING:
    # Slow to import, and not needed if kube-proxy stays as it is.
    from .._service_proxy.deployment.engine import ServiceProxyEngine
    from .._service_proxy.deployment.request import Deployment

HELD, PROGRAM = "held", "service_proxy"  # fields of kube-proxy's value in this mode (switch.py)
GROUP = AGENT.what  # group of all resources of its installation
_RECORD = "held.json"
_NOT_OURS = ("apiVersion", "kind", "mode")  # keys of kube-proxy's configuration that ours does not have
_STARTING_SECONDS = 10


def _engine() -> ServiceProxyEngine:
    from .._service_proxy.deployment.engine import ENGINE

    return ENGINE


# Its parts


def parts(state_dir: str, where: Installation) -> list[Resource]:
    """The resources of its installation. The record of the held kube-proxy is made first and removed last."""
    place = {"service": where.service, "config_path": where.config_path}
    path = os.path.join(state_dir, _RECORD)
    record = file(path, json.dumps(place, sort_keys=True), mode=0o600, group=GROUP, title="record of kube-proxy")
    return [record, *_engine().parts(state_dir)]


def is_installed(host: Host, state_dir: str) -> bool:
    """Whether any of its parts may exist."""
    return host.stat(os.path.join(state_dir, _RECORD)) is not None


def require_record(host: Host, where: Installation, state_dir: str) -> None:
    """HostError if kube-proxy is held and this state directory has no record of it: kube-proxy would be started next to our
    proxy."""
    if hold.is_held(host, where.service) and not is_installed(host, state_dir):
        raise MESSAGES.error("migrate-held-elsewhere", service=where.service, state_dir=state_dir)


def read_held(host: Host, state_dir: str) -> Optional[Installation]:
    """The kube-proxy that it replaces; None if there is no complete record."""
    row = parse_object(host.read(os.path.join(state_dir, _RECORD))) or {}
    service, config_path = row.get("service"), row.get("config_path")
    if not isinstance(service, str) or not isinstance(config_path, str):
        return None
    return Installation(SERVICE, service, config_path)


def obstacle(host: Host, where: Installation, recorded: Collection[tuple[str, str]]) -> Optional[BallastError]:
    """Why it cannot be installed on this node in place of kube-proxy; None if nothing prevents it."""
    if where.deployment != SERVICE:
        return MESSAGES.error("migrate-ballast-daemonset")
    command = _engine().installation.command
    if host.stat(command) is not None and ("file", command) not in recorded:
        return MESSAGES.error("migrate-ballast-installed", found=command)
    try:
        hold.require_free(host, where.service)
    except BallastError as error:
        return error
    return None


# Its settings


def deployment(state_dir: str, config: Mapping[str, Any], node: str) -> Deployment:
    """Its settings, from kube-proxy's configuration. UserError or Problems for a configuration that it does not support. It
    runs as root with CAP_NET_ADMIN only, because it uses kube-proxy's kubeconfig, which only root can read."""
    from .._agent.deployment import PRESENT
    from .._service_proxy.deployment.request import Deployment

    settings = {key: value for key, value in config.items() if key not in _NOT_OURS}
    options = {"config": {**settings, "hostnameOverride": node}, "service_proxy_name": "", "state_dir": state_dir}
    return replace(Deployment.from_params({"state": PRESENT, **options}), user="")


def value(state_dir: str, text: str, config: Mapping[str, Any], node: str, network: Optional[str]) -> Value:
    """kube-proxy's value (switch.py) while our proxy serves. `text` is the content of kube-proxy's file, which is not
    changed; `network` is the path of the network namespace in which kube-proxy is started."""
    program = _engine().running_program(deployment(state_dir, config, node), netns=network).value
    return {"config": text, "mode": BALLAST, HELD: True, PROGRAM: program}


def is_value(value: Value) -> bool:
    """Whether a value of kube-proxy is one of mode `ballast`, as `value` makes it."""
    return value != ABSENT and PROGRAM in fields(value)


def renew(state_dir: str, recorded: Value, node: str, network: Optional[str]) -> Value:
    """A recorded value to roll back to, with the current program: it may have been upgraded in between."""
    row = fields(recorded)
    settings = fields(fields(row[PROGRAM])["settings"])
    return value(state_dir, str(row["config"]), settings, node, network)


# Reading its state


def read_program(ctx: Context[Any], state_dir: str) -> Value:
    """The value of PROGRAM; ABSENT if kube-proxy serves, or if the service proxy is not installed in its place."""
    return _engine().running.read(ctx, _target(state_dir)) if is_installed(ctx.host, state_dir) else ABSENT


def serves(host: Host, where: Installation) -> bool:
    """Whether it runs with its settings and no kube-proxy runs next to it."""
    return _engine().running.in_effect(host) and process(host, where) is None


def wait_for_mode(host: Host, where: Installation, program: Value) -> str:
    """BALLAST, or "" if it does not serve. A proxy that is starting gets a few seconds to respond. `program` is the value of
    PROGRAM."""
    service = ABSENT if program == ABSENT else fields(program)["service"]
    if service == ABSENT or not fields(service)["running"]:
        return ""
    served = wait_until(host, lambda: serves(host, where), seconds=_STARTING_SECONDS, interval=0.2)
    return BALLAST if served else ""


def config_of(host: Host, where: Installation) -> Mapping[str, Any]:
    """The configuration of the proxy that serves the node: its own, else kube-proxy's."""
    own = _engine().running.document(host) if hold.is_held(host, where.service) else None
    return current_config(host, where) if own is None else own


def findings(config: Mapping[str, Any]) -> list[Finding]:
    """Findings about settings that have no effect."""
    from .._agent.installation import as_text
    from .._service_proxy.configuration import parse_configuration

    path = _engine().installation.config
    warnings = parse_configuration(as_text(config), name=path).warnings
    return [Finding(each.id, path, each.text, each.remedy, blocking=False) for each in warnings]


# Starting and removing it


def start(ctx: Context[Any], state_dir: str, after: Value, before: Value) -> None:
    """Start it and wait until it works with its settings. `before` is the value of PROGRAM."""
    _engine().running.write(ctx, _target(state_dir), after, before)


def remove(ctx: Context[Any], state_dir: str) -> None:
    """Stop it, then remove its rules. No effect if it is not installed."""
    if not is_installed(ctx.host, state_dir):
        return
    from .._service_proxy.kernel import remove_tables

    _engine().running.remove(ctx, _target(state_dir), ABSENT)
    remove_tables(ctx.host)


def _target(state_dir: str) -> str:
    return _engine().installation.target(state_dir)
