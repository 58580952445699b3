# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What our services are allowed to do, with either supervisor.

| service | sandbox |
|---|---|
| pull proxy, reconciler, service proxy, aggregation agent, etcd, API servers, controller manager, scheduler | everything in this module |
| kube-proxy; service proxy of an instance; watchdog of a change | capabilities and `no_new_privs` only: they work on the host's network, kernel and services |
| kubelet, containerd | none: containers inherit their restrictions |

Containers would inherit `no_new_privs`, a bounding set and seccomp filters; mounts must reach the host; and a umask changes
the modes of files in volumes.

systemd has a setting for each restriction. Under runit, setpriv(1) and a mount namespace do the same, except for the seccomp
filters (namespaces, address families, memory that is writable and executable), devices, and the kernel's files in /proc and
/sys. The missing capabilities still protect those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_HOMES = ("/home", "/root", "/run/user")
_TEMPORARY = ("/tmp", "/var/tmp")
# Here only root makes directories. Elsewhere a user may own a parent directory, which root without capabilities cannot
# traverse.
_OF_ROOT = ("/etc", "/opt", "/run", "/srv", "/usr", "/var")
_READ_SEARCH = "CAP_DAC_READ_SEARCH"
_ALWAYS = ("LockPersonality=yes", "RestrictRealtime=yes", "SystemCallArchitectures=native")


@dataclass(frozen=True)
class Sandbox:
    """The defaults fit a program that listens, connects, reads files, and writes its log."""

    writes: tuple[str, ...] = ()  # directories besides that of the log; made if absent
    reads: tuple[str, ...] = ()  # files that are not on its command line
    capabilities: tuple[str, ...] = ()  # "CAP_NET_ADMIN"
    cgroups: bool = False  # it changes limits of cgroups
    host: bool = False  # it manages the host: no file system, device or namespace is hidden from it

    @staticmethod
    def from_value(value: Mapping[str, Any]) -> Sandbox:
        """The inverse of `dataclasses.asdict`, after a round trip through JSON."""
        parts: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}
        return Sandbox(**parts)

    def faults(self) -> list[str]:
        """What a unit file or a script cannot represent."""
        paths = [*self.writes, *self.reads]
        return [
            *(f"path {path!r}" for path in paths if not path.startswith("/") or not path.isprintable()),
            *(f"capability {name!r}" for name in self.capabilities if not name.replace("_", "").isalnum()),
        ]


def unit_lines(sandbox: Sandbox, *, log_directory: str, paths: Iterable[str]) -> list[str]:
    """systemd settings. `paths` are all paths that the program is known to use. Services with `host` get the rest from
    `setpriv_words`, after they have entered the namespaces of their node."""
    if sandbox.host:
        return list(_ALWAYS)
    used = [*paths, *sandbox.reads, *sandbox.writes]
    writes = (log_directory, *sandbox.writes)
    return [
        *_ALWAYS,
        "NoNewPrivileges=yes",
        f"CapabilityBoundingSet={' '.join(_capabilities(sandbox, used))}",
        "MemoryDenyWriteExecute=yes",
        "PrivateDevices=yes",
        f"PrivateTmp={_yes(not _below(used, _TEMPORARY))}",
        "ProtectClock=yes",
        f"ProtectControlGroups={_yes(not sandbox.cgroups)}",
        f"ProtectHome={_yes(not _below(used, _HOMES))}",
        "ProtectHostname=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "ProtectSystem=strict",
        f"ReadWritePaths={' '.join(_quote(path) for path in writes)}",
        # With full privileges, before the file system becomes read-only: directories below /run are gone after a reboot.
        *(f"ExecStartPre=+/usr/bin/mkdir -p -m 0700 -- {_quote(path, dollar='$$')}" for path in sandbox.writes),
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "RestrictNamespaces=yes",
        "RestrictSUIDSGID=yes",
        "UMask=0077",
    ]


# Arguments: directories that stay writable, "--", the command. Directories below /run are gone after a reboot, and cannot be
# made once the rest is read-only. The mounts end with this namespace.
_READ_ONLY = """for place do
  shift
  [ "$place" = -- ] && break
  mkdir -p -m 0700 -- "$place" && mount --bind "$place" "$place" || exit 1
done
mount -o remount,bind,ro / || exit 1
umask 077
exec "$@\""""


def runit_words(sandbox: Sandbox, *, log_directory: str, paths: Iterable[str]) -> list[str]:
    """The prefix of a runit command: a mount namespace in which / is read-only, then setpriv."""
    if sandbox.host:
        return setpriv_words(sandbox)
    used = [*paths, *sandbox.reads, *sandbox.writes]
    enter = ["/usr/bin/unshare", "--mount", "--propagation", "slave", "--", "/bin/sh", "-c", _READ_ONLY, "sh"]
    return [*enter, log_directory, *sandbox.writes, "--", *_setpriv(_capabilities(sandbox, used))]


def setpriv_words(sandbox: Sandbox) -> list[str]:
    """The prefix of a command that sets capabilities and `no_new_privs`, and nothing else."""
    return _setpriv(sandbox.capabilities)


def _setpriv(capabilities: Iterable[str]) -> list[str]:
    kept = ",".join(["-all", *(f"+{name[len('CAP_') :].lower()}" for name in capabilities)])
    return ["/usr/bin/setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={kept}", "--"]


def _capabilities(sandbox: Sandbox, used: Iterable[str]) -> tuple[str, ...]:
    is_of_root = all(_is_below(path, _OF_ROOT) for path in used)
    return sandbox.capabilities if is_of_root else (*sandbox.capabilities, _READ_SEARCH)


def paths_in(words: Iterable[str]) -> list[str]:
    """The absolute paths on a command line, given as PATH or --option=PATH."""
    values = (word.partition("=")[2] if word.startswith("-") else word for word in words)
    return [value for value in values if value.startswith("/")]


def _below(paths: Iterable[str], places: tuple[str, ...]) -> bool:
    return any(_is_below(path, places) for path in paths)


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _quote(path: str, *, dollar: str = "$") -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollar)
    return f'"{escaped}"'
