# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request: which playbook for which hosts, in how many slices, on which cluster."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Optional

from .._core.engine.events import PROGRESS_LOG
from .._core.host.host import Host
from .._core.kube import connection
from .._core.text.errors import BallastError, Problems
from .._core.text.json_text import parse_json
from .messages import MESSAGES
from .sizes import find_size_problems
from .slices import Slices, divide, slice_inventory

PRESENT, ABSENT = "present", "absent"
PLAYBOOKS = {
    "kube_proxy_migrate": "kube_proxy",
    "kube_proxy_rollback": "kube_proxy",
}  # with the prefix of each playbook's variables
SLICES_MOST = 100
SECRET_BYTES = 1_000_000  # a Secret holds 1 MiB
_DIGEST_ROUNDS = 200_000
INPUT = "/input"  # mount point of the Secret in a pod
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_NO_NAME = re.compile(r"[\[\]]|^[^:]*:[0-9]+$", re.ASCII)
# paths of the Ansible control node, in place of which a pod has its own.
_KEY = "ansible_ssh_private_key_file"
_KNOWN_HOSTS = "known-hosts"
_OF_JOBS = ("awx_", "tower_")  # AWX sets variables of these names anew for each of its jobs

SPEC: dict[str, Any] = {
    **connection.SPEC,
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    "namespace": {"type": "str", "default": "ballast-fleet"},
    "image": {"type": "str", "default": "ballast.local/execution-environment:1"},
    "request": {"type": "dict"},
    "slices": {"type": "int", "default": 4},
    "parallelism": {"type": "int"},
    "forks": {"type": "int", "default": 10},
    "ssh_key": {"type": "path"},
    "known_hosts": {"type": "path"},
    "dir": {"type": "path"},
    "inventory": {"type": "str", "no_log": True},
    **PROGRESS_LOG,
}
REQUIRED_IF = [("state", PRESENT, ("request", "dir"))]


@dataclass(frozen=True)
class FleetRunRequest:
    """`inventory` has `hosts`, variables by host; `groups`, hosts by group; `local`, variables of localhost that the playbook uses;
    `extra`, those given with -e."""

    kubeconfig: str
    context: str
    namespace: str
    state: str
    image: str = ""
    playbook: str = ""
    hosts: tuple[str, ...] = ()
    canaries: tuple[str, ...] = ()
    max_fail: int = 0
    acts: bool = False
    slice_count: int = 1
    parallelism: int = 1
    forks: int = 10
    ssh_key: bytes = b""
    known_hosts: bytes = b""
    directory: str = ""
    inventory: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def slices(self) -> Slices:
        return divide(self.hosts, self.canaries, self.slice_count, acts=self.acts)

    @cached_property
    def secret(self) -> dict[str, bytes]:
        """The content of the Secret, by file name."""
        own = {_KEY: f"{INPUT}/ssh-key"} if self.ssh_key else {}
        variables, groups = self.inventory["hosts"], self.inventory["groups"]
        local = self.inventory.get("local", {})
        files = {
            f"{name}.json.gz": gzip.compress(
                _text(slice_inventory(hosts, variables, groups, own, local), in_order=True), mtime=0
            )
            for name, hosts in self.slices.by_name.items()
        }
        settings = {"playbook": self.playbook, "acts": self.acts, "forks": self.forks, "variables": self._variables}
        files["settings.json"] = _text(settings)
        files.update({name: data for name, data in self._files.items() if data})
        return files

    @property
    def _files(self) -> dict[str, bytes]:
        return {"ssh-key": self.ssh_key, _KNOWN_HOSTS: self.known_hosts}

    @property
    def _variables(self) -> dict[str, Any]:
        """Variables of the playbook in each slice: its hosts are its whole inventory, while max_fail counts for the whole run."""
        prefix = PLAYBOOKS[self.playbook]
        own: dict[str, Any] = {"hosts": "all", "canaries": "", "max_fail": self.max_fail}
        own["plan_file"] = ""  # of the control node, wherever it was given
        left_out = {_KEY} if self.ssh_key else set()
        given = {name: value for name, value in self.inventory["extra"].items() if name not in left_out}
        return {**given, **{f"{prefix}_{name}": value for name, value in own.items()}}

    @cached_property
    def digest(self) -> str:
        """A digest of everything that a run is made from: a request with another digest is another run. It leaves out ssh's file of host
        keys, to which ssh adds keys at any time, and the number of an AWX job."""
        total = hashlib.sha256()
        lasting = replace(self, inventory=_without_job(self.inventory))
        image = {"image": self.image.encode(), "parallelism": str(self.parallelism).encode()}
        for name, data in sorted({**lasting.secret, **image}.items()):
            if name != _KNOWN_HOSTS:
                total.update(f"{name} {len(data)}\n".encode() + data)
        # Whoever may read Namespaces reads it: a password in the inventory must take too long to find by trying.
        return hashlib.pbkdf2_hmac("sha256", total.digest(), b"fleet-run", _DIGEST_ROUNDS).hex()

    @classmethod
    def from_params(cls, params: Mapping[str, Any], host: Host) -> FleetRunRequest:
        """Raises Problems with every wrong option."""
        problems: list[BallastError] = []
        if not _NAMESPACE.fullmatch(params["namespace"]):
            problems.append(_wrong("namespace", params["namespace"], "a name of a Namespace", "use a-z, 0-9 and -"))
        common = {
            "kubeconfig": params["kubeconfig"] or "",
            "context": params["context"] or "",
            "namespace": params["namespace"],
            "state": params["state"],
        }
        if params["state"] == ABSENT:
            Problems.raise_if(problems)
            return cls(**common)
        asked_for = params["request"]
        problems += [*_of_playbook(asked_for), *_of_names(asked_for.get("hosts") or ())]
        for name, most in (("slices", SLICES_MOST), ("forks", 500), ("parallelism", SLICES_MOST)):
            value = params[name]
            if value is not None and not 1 <= value <= most:
                problems.append(_wrong(name, value, f"a number from 1 to {most}", f"-e fleet_{name}=4"))
        files = {name: _read(name, params[name], host, problems) for name in ("ssh_key", "known_hosts")}
        if files["ssh_key"] is not None and b" PRIVATE KEY-----" not in files["ssh_key"]:
            hint = "name the private key itself: -e fleet_ssh_key=~/.ssh/fleet"
            problems.append(_wrong("ssh_key", params["ssh_key"], "a private key that OpenSSH reads", hint))
        if is_encrypted(files["ssh_key"] or b""):
            problems.append(MESSAGES.error("fleet-run-passphrase", path=params["ssh_key"]))
        Problems.raise_if(problems)
        request = cls(
            **common,
            image=params["image"],
            playbook=asked_for["playbook"],
            hosts=tuple(asked_for["hosts"]),
            canaries=tuple(asked_for["canaries"]),
            max_fail=asked_for["max_fail"],
            acts=asked_for["acts"],
            slice_count=params["slices"],
            parallelism=params["parallelism"] or params["slices"],
            forks=params["forks"],
            directory=params["dir"],
            inventory=parse_json(params["inventory"]),
            ssh_key=files["ssh_key"] or b"",
            known_hosts=files["known_hosts"] or b"",
        )
        Problems.raise_if(find_size_problems(request.slices.by_name))
        size = sum(map(len, request.secret.values()))
        if size > SECRET_BYTES:
            raise MESSAGES.error("fleet-run-size", size=size, most=SECRET_BYTES)
        return request


def is_encrypted(key: bytes) -> bool:
    """Whether a private key is encrypted, in a form that OpenSSH reads: PEM, PKCS #8, or its own (its PROTOCOL.key)."""
    head, _line, rest = key.strip().partition(b"\n")
    if b"OPENSSH PRIVATE KEY" not in head:
        return b"ENCRYPTED" in head or rest.startswith(b"Proc-Type: 4,ENCRYPTED")
    try:
        begin = base64.b64decode(b"".join(rest.split())[:64])
    except ValueError:
        return False
    magic, none = b"openssh-key-v1\0", b"\0\0\0\4none"  # the name of the cipher comes first
    return begin.startswith(magic) and not begin.startswith(magic + none)


def _without_job(inventory: Mapping[str, Any]) -> dict[str, Any]:
    def keep(row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if not name.startswith(_OF_JOBS)}

    parts = {name: keep(inventory[name]) for name in ("local", "extra") if name in inventory}
    return {**inventory, **parts, "hosts": {host: keep(row) for host, row in inventory["hosts"].items()}}


def _of_playbook(asked_for: Mapping[str, Any]) -> list[BallastError]:
    playbook = asked_for.get("playbook")
    if playbook not in PLAYBOOKS:
        hint = "use one of these: -e fleet_playbook=kube_proxy_migrate"
        return [_wrong("playbook", playbook, " or ".join(PLAYBOOKS), hint)]
    if asked_for.get("admin_kubeconfig"):
        return [MESSAGES.error("fleet-run-daemonset", playbook=playbook)]
    return []


def _of_names(hosts: Sequence[str]) -> list[BallastError]:
    """Refuse names that Ansible would read differently from a file: brackets as a range of hosts, a number after a colon as a port."""
    wrong = [host for host in hosts if _NO_NAME.search(host) or not host.isprintable()]
    if not wrong:
        return []
    expected, hint = (
        "a name of a host that an inventory file can have",
        "rename it in the inventory, and set ansible_host",
    )
    return [_wrong("hosts", ", ".join(wrong[:5]), expected, hint)]


def _read(name: str, path: Any, host: Host, problems: list[BallastError]) -> Optional[bytes]:
    """The content of a file that decides who is trusted, so one that other users may write is refused, as a kubeconfig is. None
    without a path, and for a missing file, which is a problem."""
    if not path:
        return None
    data = host.read_trusted(path)
    if data is None:
        problems.append(MESSAGES.error("fleet-run-file", name=name, path=path))
    return data


def _wrong(name: str, value: Any, expected: str, hint: str) -> BallastError:
    return MESSAGES.error("fleet-run-option", name=name, value=value, expected=expected, hint=hint)


def _text(value: Any, *, in_order: bool = False) -> bytes:
    """JSON. `in_order` keeps the order of keys: hosts are processed in inventory order."""
    return json.dumps(value, sort_keys=not in_order, separators=(",", ":")).encode()
