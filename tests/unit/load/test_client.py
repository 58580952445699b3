# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

from tests.load.client import Holder


def test_a_long_lived_connection_that_is_never_answered_again_is_broken() -> None:
    records: list[dict[str, Any]] = []
    client = SimpleNamespace(
        watch=lambda one, of: None,
        unwatch=lambda one: None,
        record=records.append,
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = {"name": "plain", "address": "127.0.0.1", "port": server.getsockname()[1]}
        holder = Holder(client, {"count": 1, "source": "127.0.0.1", "ports": [0, 0], "targets": [target]})
        (held,) = holder._held
        holder._open(held, time.monotonic())
        with server.accept()[0] as other:
            other.send(b"s:1")
            time.sleep(0.1)
            holder.ready(held)
            asked = time.monotonic() + 10
            for seconds, broken in ((0, 0), (59, 0), (61, 1)):
                holder.act_due(asked + seconds)
                assert len(records) == broken, seconds
        holder._drop(held)  # another one is opened for it
    assert (records[0]["broken"], records[0]["target"]) == ("hangs", "plain")
