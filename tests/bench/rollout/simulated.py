# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection to a simulated node: what Ansible would send it is read, and what the node returns is printed.

Ansible does all that it does for a real node: it builds each module with what it imports, and reads what comes back.
"""

# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import ast
import fcntl
import json
import os
import re
import time
from pathlib import Path
from typing import Any, Optional

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

from tests.bench.rollout_node import ConnectionLost, dump, load

DOCUMENTATION = """
name: simulated
short_description: a node of a rehearsal
description: A file of BALLAST_ROLLOUT, which the tests make, is the node.
author: ballast.kube contributors
options:
  remote_addr:
    description: The host.
    default: inventory_hostname
    vars:
      - name: inventory_hostname
"""
# As Ansible writes the call at the end of a module: a line for each argument.
_MODULE, _PARAMS = (
    re.compile(r"^ansible_module='(?:.*\.)?(\w+)',$", re.MULTILINE),
    re.compile(r"^params=(.*),$", re.MULTILINE),
)


class Connection(ConnectionBase):
    transport = "simulated"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: Optional[bytes] = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        if not in_data:
            return 0, b"", b""
        call = in_data[in_data.rindex(b"_ansiballz_main(") :].decode()
        module, params = _MODULE.search(call), _PARAMS.search(call)
        assert module is not None, call[:300]
        assert params is not None, call[:300]
        options = json.loads(ast.literal_eval(params[1]))["ANSIBLE_MODULE_ARGS"]
        try:
            return 0, json.dumps(self._run(module[1], options)).encode(), b""
        except ConnectionLost as error:
            raise AnsibleConnectionFailure(str(error)) from error

    def _run(self, module: str, options: dict[str, Any]) -> object:
        with (Path(os.environ["BALLAST_ROLLOUT"]) / self.get_option("remote_addr")).open(
            "r+", encoding="utf-8"
        ) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            node = load(file.read())
            begun = time.time()
            node.tick(begun)
            time.sleep(node.seconds(module, options))
            try:
                return node.run(module, options, begun=begun, now=time.time(), check=options["_ansible_check_mode"])
            finally:
                file.seek(0)
                file.write(dump(node))
                file.truncate()

    def put_file(self, in_path: str, out_path: str) -> None:
        raise AssertionError("modules are sent by pipelining")

    fetch_file = put_file

    def reset(self) -> None:
        """Each call is a connection of its own."""

    def close(self) -> None:
        self._connected = False
