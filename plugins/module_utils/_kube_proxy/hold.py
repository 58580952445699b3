# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the service of kube-proxy stopped on this node while our service proxy is installed in its place.

    systemd    a drop-in for its unit with a condition on our unit: nothing starts kube-proxy while our unit exists, neither a
               reboot, nor another unit, nor `systemctl start`
    runit      the file `down` in its directory, with which runsv does not start it. It is a link to our directory in /run: a
               reboot does not start our runsvdir, the link is then dangling, and kube-proxy starts

If our part disappears for any reason, the hold is void: no reboot leaves a node without either of the two.
"""

from __future__ import annotations

import os

from .._core.host.host import Host
from .._core.service.systemd import UNIT_DIRECTORY
from .._service_proxy.messages import AGENT
from .messages import MESSAGES

_DROP_IN = "ballast-hold.conf"
_SECONDS = 60
_OURS_IN_RUN = f"/run/{AGENT.name}"  # the same as in _service_proxy/deployment/installation.py, which is slow to import
_TEXT = f"""\
# ballast.kube: {AGENT.name} serves this node in the place of kube-proxy. Removed with it.
[Unit]
ConditionPathExists=!{UNIT_DIRECTORY}/{AGENT.name}.service
"""


def hold(host: Host, service: str) -> None:
    """Hold a service that has been stopped. HostError if an object of another program is in the way."""
    require_free(host, service)
    if _by_runit(service):
        host.symlink(_link(service), _OURS_IN_RUN)
        return
    host.make_directory(os.path.dirname(_drop_in(service)))
    host.write(_drop_in(service), _TEXT.encode())
    _reload(host)


def release(host: Host, service: str) -> None:
    """Release a service; no effect if it is not held."""
    if _by_runit(service):
        if _is_our_link(host, service):
            host.remove(_link(service))
        return
    path = _drop_in(service)
    if host.read(path) == _TEXT.encode():
        host.remove(path)
        _reload(host)
    # Also if a run was killed before it wrote the drop-in. A directory without drop-ins has no effect, whoever made it.
    if host.stat(os.path.dirname(path)) is not None and not host.listdir(os.path.dirname(path)):
        host.remove_directory(os.path.dirname(path))


def is_held(host: Host, service: str) -> bool:
    """Whether a service is held. False for "", the service of a kube-proxy in a pod."""
    if _by_runit(service):
        return _is_our_link(host, service) and host.stat(_OURS_IN_RUN) is not None
    return service != "" and host.read(_drop_in(service)) == _TEXT.encode()


def require_free(host: Host, service: str) -> None:
    """`migrate-hold-taken` if there is something else where the hold of this service belongs."""
    if _by_runit(service):
        path, is_ours = _link(service), _is_our_link(host, service)
    else:
        path = _drop_in(service)
        is_ours = host.read(path) == _TEXT.encode()
    if host.stat(path) is not None and not is_ours:
        raise MESSAGES.error("migrate-hold-taken", path=path)


def _by_runit(service: str) -> bool:
    return service.startswith("/")


def _link(service: str) -> str:
    return os.path.join(service, "down")


def _is_our_link(host: Host, service: str) -> bool:
    stat = host.stat(_link(service))
    return stat is not None and stat.kind == "symlink" and host.readlink(_link(service)) == _OURS_IN_RUN


def _drop_in(service: str) -> str:
    unit = service if service.endswith(".service") else f"{service}.service"
    return os.path.join(UNIT_DIRECTORY, f"{unit}.d", _DROP_IN)


def _reload(host: Host) -> None:
    host.run(["systemctl", "daemon-reload"], timeout=_SECONDS)
