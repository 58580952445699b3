# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real `ballast-service-proxy` as a user of its own with CAP_NET_ADMIN alone: rules, repairs and conntrack; and that it does
not start where a capability that it needs is missing."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.confined import is_confined
from tests.integration.test_service_proxy import (
    SECONDS,
    Proxy,
    endpoints,
    endpoints_of,
    eventually,
    node_of,
    send,
    standing,
    web,
)
from tests.integration.wire import entered

PLACE = Path("/run/ballast-test-service-proxy-user")  # which every user may enter
USER = "nobody"
PYTHON = "/usr/bin/python3"  # whose modules every user may read

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="only root can make namespaces, and nft is needed"
)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(mode=0o755)
    try:
        with standing(PLACE, "service-proxy-user") as made:
            made.flags += ["--user", USER]
            made.python = [PYTHON]
            made.api.put("Node", node_of("192.168.1.10"))
            yield made
    finally:
        shutil.rmtree(PLACE)


def test_it_programs_repairs_and_cleans_connections(proxy: Proxy) -> None:
    proxy.api.put("Service", web("a", ports=[{"name": "http", "port": 53, "protocol": "UDP"}]))
    slice_ = endpoints("a", "10.1.1.5", "10.1.1.6")
    slice_["ports"] = [{"name": "http", "port": 5353, "protocol": "UDP"}]
    proxy.api.put("EndpointSlice", slice_)
    proxy.start()
    proxy.agrees()
    assert proxy.process is not None
    entry = pwd.getpwnam(USER)
    is_confined(proxy.process.pid, entry.pw_uid, entry.pw_gid)
    assert [path.owner() for path in PLACE.rglob("*") if path.owner() != "root"] == []

    for number in range(40):
        send(proxy, "10.96.0.1", 53, 40000 + number)
    assert set(endpoints_of(proxy, "10.96.0.1")) == {"10.1.1.5", "10.1.1.6"}
    proxy.api.put("EndpointSlice", {**slice_, "endpoints": slice_["endpoints"][:1]})
    assert eventually(lambda: set(endpoints_of(proxy, "10.96.0.1")) == {"10.1.1.5"}, seconds=SECONDS)

    proxy.nft("flush", "ruleset")
    assert eventually(lambda: proxy.status()["repairs"] >= 2, seconds=SECONDS)
    assert proxy.tables() == proxy.expected()


@pytest.mark.parametrize(
    ("capabilities", "user"),
    [("+net_admin,+setuid", USER), ("+net_admin,+setgid", USER), ("+setuid,+setgid", USER), ("+all", "no-such-user")],
)
def test_without_a_capability_or_its_user_it_does_not_start(proxy: Proxy, capabilities: str, user: str) -> None:
    confine = ["setpriv", f"--bounding-set=-all,{capabilities}", "--inh-caps=-all", "--"]
    words = [PYTHON, f"{PLACE}/ballast-service-proxy.pyz", "--config", f"{PLACE}/config.json", "--user", user]
    with entered(proxy.host.namespace):
        done = subprocess.run(
            [*confine, *words], env={"RUNTIME_DIRECTORY": f"{PLACE}/run"}, capture_output=True, text=True, timeout=60
        )
    assert (done.returncode, "service-proxy-user" in done.stderr) == (3, True), done.stderr
