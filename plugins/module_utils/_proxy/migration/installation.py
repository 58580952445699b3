# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How kube-proxy runs on this node: its process, its files as it sees them, and its supervisor.

service     a systemd unit or a runit service, with a configuration file on the node
daemonset   a pod of the host's network; its files are read through /proc/PID/root
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Optional, Union

from ..._core.daemon import command_line, daemon_exists, daemon_network, daemon_pid, flag_value
from ..._core.host import PATH, Host
from .config_file import parse_config
from .messages import MESSAGES

if TYPE_CHECKING:
    from ..._core.kubeapi import Api
    from ..._core.kubeconfig import Credentials

SERVICE, DAEMONSET = "service", "daemonset"
MODE_LABEL = "ballast.kube/kube-proxy-mode"  # of a node: the mode whose DaemonSet it has chosen
POD_CONFIG_PATH = "/var/lib/kube-proxy/config.conf"
_PROGRAM = "kube-proxy"
_LINKS = 10  # iptables is one to its alternative, that one to the variant, and that to the program of all tools


@dataclass(frozen=True)
class Installation:
    """As the operator told it; "" is to be found out."""

    deployment: str
    service: str  # a systemd unit, or the directory of a runit service
    config_path: str
    kubeconfig: str = ""
    node_name: str = ""


def process(host: Host, where: Installation) -> Optional[int]:
    """The pid of kube-proxy; None while it does not run."""
    if where.deployment == DAEMONSET:
        return _in_this_network(host)
    return daemon_pid(host, where.service)


def require_service(host: Host, where: Installation) -> None:
    """Raise where there is no such service, or it is not started with the configuration file that it is told by."""
    if where.deployment == DAEMONSET:
        return
    if not daemon_exists(host, where.service):
        raise MESSAGES.error("migrate-no-service", service=where.service)
    pid = process(host, where)
    argv = [] if pid is None else command_line(host, pid)
    named = flag_value(argv, "--config")
    if argv and os.path.basename(argv[0]) == _PROGRAM and named != where.config_path:
        raise MESSAGES.error("migrate-config-unused", found=" ".join(argv[:12]), path=where.config_path)


def config_text(host: Host, where: Installation) -> Optional[str]:
    """Of the configuration that kube-proxy reads; None where there is none."""
    path = where.config_path
    if where.deployment == DAEMONSET:
        root, argv = _pod(host)
        path = root + (flag_value(argv, "--config") or POD_CONFIG_PATH)
    data = host.read(path)
    return None if data is None else data.decode("utf-8", errors="surrogateescape")


def current_config(host: Host, where: Installation) -> Mapping[str, Any]:
    """The same, parsed; empty where there is none."""
    text = config_text(host, where)
    return {} if text is None else parse_config(text, path=where.config_path)


def node_name(host: Host, where: Installation, config: Mapping[str, Any]) -> str:
    """Its own flag stands above the file, and that above the machine's name; names are taken in lower case, without blanks
    around them: so kube-proxy itself decides (k8s.io/component-helpers/node/util, GetHostname)."""
    if where.node_name:
        return where.node_name
    pid = process(host, where)
    flag = None if pid is None else flag_value(command_line(host, pid), "--hostname-override")
    return (flag or str(config.get("hostnameOverride") or "") or platform.node()).strip().lower()


def api(host: Host, where: Installation, config: Mapping[str, Any]) -> Api:
    """With kube-proxy's own credentials, which may list and watch what rules are made of."""
    from ..._core.kubeapi import Api  # which a run that changes nothing does not ask

    return Api(host, _credentials(host, where, config))


def iptables_variant(host: Host, where: Installation) -> str:
    """Which of the two kube-proxy writes to: that of the `iptables` which its own PATH leads to, seen from its own root.
    "" where that cannot be told."""
    from ..iptables.restore import VARIANTS

    pid = process(host, where)
    if pid is None:
        return ""
    root = f"/proc/{pid}/root"
    for directory in _environment(host, pid).get("PATH", PATH).split(":"):
        path = os.path.join(directory, "iptables")
        for _link in range(_LINKS):
            link = host.readlink(root + path)
            if link is None:
                break
            path = os.path.normpath(os.path.join(os.path.dirname(path), link))
        name = os.path.basename(path)
        for variant in VARIANTS:
            if name.startswith((f"xtables-{variant}", f"iptables-{variant}")):
                return variant
    return ""


def network_namespace(host: Host, where: Installation) -> Optional[str]:
    """Path of the one that systemd starts kube-proxy in, where that is not its own."""
    return None if where.deployment == DAEMONSET else daemon_network(host, where.service)


def _credentials(host: Host, where: Installation, config: Mapping[str, Any]) -> Credentials:
    from ..._core.kubeconfig import credentials

    root, path = "", where.kubeconfig
    if not path:
        section = config.get("clientConnection")
        path = str(section.get("kubeconfig") or "") if isinstance(section, Mapping) else ""
        root = _pod(host)[0] if where.deployment == DAEMONSET else ""
    if not path:
        raise MESSAGES.error("migrate-no-kubeconfig", path="clientConnection.kubeconfig")
    data = host.read(root + path)
    if data is None:
        raise MESSAGES.error("migrate-unreadable", path=root + path)
    found = credentials(data.decode(errors="replace"), base_dir=os.path.dirname(path), name=path)
    return replace(
        found,
        ca=_below(root, found.ca),
        cert=_below(root, found.cert),
        key=_below(root, found.key),
        token_file=root + found.token_file if found.token_file else "",
    )


def _below(root: str, path: Union[str, bytes, None]) -> Union[str, bytes, None]:
    return root + path if isinstance(path, str) else path


def _pod(host: Host) -> tuple[str, list[str]]:
    """The root of its files, and its command line."""
    pid = _in_this_network(host)
    if pid is None:
        raise MESSAGES.error("migrate-no-process")
    return f"/proc/{pid}/root", command_line(host, pid)


def _in_this_network(host: Host) -> Optional[int]:
    own = host.readlink("/proc/self/ns/net")
    for name in host.listdir("/proc"):
        if name.isdigit() and host.readlink(f"/proc/{name}/ns/net") == own:
            argv = command_line(host, int(name))
            if argv and os.path.basename(argv[0]) == _PROGRAM:
                return int(name)
    return None


def _environment(host: Host, pid: int) -> dict[str, str]:
    rows = (host.read(f"/proc/{pid}/environ") or b"").decode(errors="replace").split("\0")
    return dict(row.split("=", 1) for row in rows if "=" in row)
