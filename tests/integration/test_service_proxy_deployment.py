# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module `service_proxy` in the network namespace of a node: a service that follows the cluster, takes settings, is started again,
and goes with its rules."""

from __future__ import annotations

import grp
import json
import math
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import stop_runit
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment import readiness_answers as answers
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import INSTALLATION
from tests.integration import journal
from tests.integration.adhoc import module
from tests.integration.confined import is_confined
from tests.integration.killed_run import killed
from tests.integration.test_service_proxy import (
    CONFIG,
    SECONDS,
    Proxy,
    endpoints,
    eventually,
    node_of,
    standing,
    web,
)
from tests.integration.told import assert_told
from tests.integration.wire import entered
from tests.unit.service_proxy.objects import NODE_NAME

STATE = "/var/lib/ballast/test-service-proxy"
PLACE = Path("/run/ballast-test-service-proxy")  # where only root makes directories, as kubeconfigs of nodes are
KUBECONFIG = PLACE / "kubeconfig"
CONFIG_PATH = Path(INSTALLATION.config)
COMMAND = "/usr/local/bin/ballast-service-proxy"
OF_KUBE_PROXY, OURS = "10.1.2.3", "10.1.2.4"  # endpoints
USER = "ballast-service-proxy"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="only root can make namespaces, and nft is needed"
)


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(mode=0o755)
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, PLACE)
        made = undo.enter_context(standing(PLACE, "service-proxy-unit"))
        KUBECONFIG.chmod(0o600)
        made.api.put("Node", node_of("192.168.1.10"))
        labelled = web("c")
        labelled["metadata"]["labels"] = {"service.kubernetes.io/service-proxy-name": "ballast"}
        for service in (web("a"), labelled):
            made.api.put("Service", service)
        made.api.put("EndpointSlice", endpoints("a", OF_KUBE_PROXY))
        made.api.put("EndpointSlice", endpoints("c", OURS))
        with journal.undone_by(*journal.module("service_proxy", {"state": "absent", "state_dir": STATE})):
            yield made


def _run(proxy: Proxy, **options: Any) -> dict[str, Any]:
    enter = ("nsenter", f"--net=/run/netns/{proxy.host.namespace}")
    made = module("service_proxy", inside=enter, state_dir=STATE, **options)
    print(options.get("state", "present"), made["seconds"])
    return made


def _config(**more: Any) -> dict[str, Any]:
    """As the role writes it, with addresses of its own."""
    addresses = {"healthzBindAddress": "0.0.0.0:10356", "metricsBindAddress": "127.0.0.1:10349"}
    client = {"clientConnection": {"kubeconfig": f"{PLACE}/kubeconfig"}}
    return {**client, **addresses, "hostnameOverride": NODE_NAME, **CONFIG, **more}


def _run_role(proxy: Proxy) -> None:
    variables = {
        "service_proxy_kubeconfig": f"{PLACE}/kubeconfig",
        "service_proxy_config": {"hostnameOverride": NODE_NAME, **CONFIG},
        "service_proxy_state_dir": STATE,
        "service_proxy_install_packages": False,  # of this machine
    }
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "roles": [{"role": "ballast.kube.service_proxy", "vars": variables}],
    }
    (PLACE / "play.yml").write_text(json.dumps([play]))
    enter = ["nsenter", f"--net=/run/netns/{proxy.host.namespace}"]
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    done = subprocess.run(
        [*enter, program, f"{PLACE}/play.yml"], cwd=journal.ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_runs_as_a_service_beside_kube_proxy_and_goes_with_its_rules(proxy: Proxy) -> None:
    """Services with the label are its own; all others are kube-proxy's."""
    _run_role(proxy)
    want = partial(_run, proxy, service_proxy_name="ballast")
    made = want(config=_config())
    assert not made["changed"], "the role has done all of it"
    assert eventually(lambda: OURS in proxy.nft("list", "ruleset"), seconds=SECONDS)
    assert OF_KUBE_PROXY not in proxy.nft("list", "ruleset")

    entry = pwd.getpwnam(USER)
    is_confined(made["pid"], entry.pw_uid, entry.pw_gid)
    assert (grp.getgrgid(KUBECONFIG.stat().st_gid).gr_name, KUBECONFIG.stat().st_mode & 0o777) == (USER, 0o640)
    proxy.nft("flush", "ruleset")
    assert eventually(lambda: OURS in proxy.nft("list", "ruleset"), seconds=SECONDS)

    changed = want(config=_config(nftables={"syncPeriod": "1m"}))
    assert (changed["changed"], changed["pid"]) == (True, made["pid"])
    assert changed["status"]["settings"]["sync_seconds"] == 60

    before, was_up = proxy.tables(), _seconds_up()
    os.kill(made["pid"], signal.SIGKILL)
    assert eventually(lambda: _seconds_up() < was_up, seconds=30)
    assert proxy.tables() == before
    proxy.api.put("EndpointSlice", endpoints("c", "10.1.2.9"))
    assert eventually(lambda: "10.1.2.9" in proxy.nft("list", "ruleset"), seconds=SECONDS)

    assert _run(proxy, state="absent")["changed"]
    assert proxy.tables() == {4: None, 6: None}
    left = [path for path in ("/usr/local/bin", "/usr/local/lib", "/run", "/var/log") if _has_ours(path)]
    assert left == []
    assert (KUBECONFIG.stat().st_gid, KUBECONFIG.stat().st_mode & 0o777) == (0, 0o600)
    assert USER not in [entry.pw_name for entry in pwd.getpwall()] + [entry.gr_name for entry in grp.getgrall()]


def test_each_fault_is_found_by_the_readiness_of_the_node(proxy: Proxy, tmp_path: Path) -> None:
    wanted = {"service_proxy_name": "ballast", "config": _config()}
    enter = ("nsenter", f"--net=/run/netns/{proxy.host.namespace}")

    def reading(inside: tuple[str, ...] = enter) -> dict[str, Any]:
        asked: dict[str, Any] = module("service_proxy_info", inside=inside, state_dir=STATE, readiness=True)
        found: dict[str, Any] = asked["readiness"]
        return found

    def present(*ids: str) -> bool:
        return eventually(lambda: reading()["present"] == list(ids), seconds=SECONDS)

    assert reading()["answers"]["enabled"]["verdict"] == "no"
    _run(proxy, **wanted)
    assert eventually(lambda: {one["verdict"] for one in reading()["answers"].values()} == {"yes"}, seconds=SECONDS)
    assert any(figure["buckets"] for figure in reading()["answers"]["healthy"]["figures"])

    proxy.api.put("EndpointSlice", {**endpoints("c", OURS), "endpoints": [{"addresses": ["nonsense"]}]})
    assert present(answers.SERVICES_REFUSED)
    assert_told(reading(), answers.SERVICES_REFUSED)
    proxy.api.put("EndpointSlice", endpoints("c", OURS))
    assert present()

    proxy.nft("delete table ip6 ballast-service-proxy; add table ip6 ballast-service-proxy")  # another program's
    assert present(answers.RULES_BEHIND)
    assert_told(reading(), answers.RULES_BEHIND)
    proxy.nft("delete table ip6 ballast-service-proxy")
    assert present()

    proxy.api.go_away()
    assert present(answers.API_LOST)
    assert_told(reading(), answers.API_LOST, no=("healthy", "dependencies"))
    with entered(proxy.host.namespace):
        proxy.api.come_back()
    assert eventually(lambda: reading()["present"] == [], seconds=60)

    before = CONFIG_PATH.read_text()
    CONFIG_PATH.write_text(before.replace("10.1.0.0/16", "10.1.0.0/17"))
    assert_told(reading(), answers.SETTINGS_REFUSED)
    CONFIG_PATH.write_text(before)

    in_mounts = (
        "unshare",
        "--mount",
        *enter,
        "sh",
        "-c",
        'mount --bind "$0" /usr/lib/python3/dist-packages; exec "$@"',
    )
    (tmp_path / "packages").mkdir()
    assert_told(reading((*in_mounts, str(tmp_path / "packages"))), answers.PACKAGES_MISSING, no=("dependencies",))

    killed("service_proxy", {**wanted, "state_dir": STATE, "config": _config(bindAddressHardFail=True)}, inside=enter)
    assert_told(reading(), answers.BROKEN_OFF, no=())
    _run(proxy, **wanted)

    stop_runit(LocalHost(), INSTALLATION.target(STATE))
    assert_told(reading(), answers.DOWN)
    assert _run(proxy, state="absent")["changed"]


def _has_ours(directory: str) -> bool:
    return os.path.lexists(f"{directory}/ballast-service-proxy")


def _seconds_up() -> float:
    """Infinite where none answers."""
    argv = [COMMAND, "status", "--config", "/etc/ballast/service-proxy.json", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    return float(json.loads(done.stdout)["seconds"]) if done.returncode == 0 else math.inf
