# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the kubelet of a node is asked for what it has in effect, and by which certificate it is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.kubelet import Kubelet, read_in_effect
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.model import ImagePullsRequest
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.pulls.node.fake_node import kubeconfig, params

CONFIG = "/var/lib/kubelet/config.json"


class Seen(FakeHost):
    """What is asked of it, with the certificate that the server has to have."""

    def request(self, url: str, **options: Any) -> Response:
        self.requested = (url, options.get("peer"), options.get("ca"))
        return json_answer(200, {"kubeletconfig": {"registryBurst": 7}})


def ask(config: dict[str, Any], *flags: str) -> Seen:
    host = Seen()
    host.given(CONFIG, json.dumps(config))
    host.given("/etc/kubernetes/admin.conf", kubeconfig())
    for path in ("/var/lib/kubelet/pki/kubelet.crt", "/var/lib/kubelet/pki/kubelet-server-current.pem", "/x/k.crt"):
        host.given(path)
    kubelet = Kubelet("kubelet", ("kubelet", f"--config={CONFIG}", *flags), 7)
    assert read_in_effect(host, ImagePullsRequest.from_params(params()).layout, kubelet)["registryBurst"] == 7
    return host


@pytest.mark.parametrize(
    ("config", "flags", "url", "certificate"),
    [
        ({}, (), "https://127.0.0.1:10250/configz", "/var/lib/kubelet/pki/kubelet.crt"),
        ({"address": "192.0.2.7"}, (), "https://192.0.2.7:10250/configz", "/var/lib/kubelet/pki/kubelet.crt"),
        ({"address": "::", "port": 11250}, (), "https://[::1]:11250/configz", "/var/lib/kubelet/pki/kubelet.crt"),
        ({}, ("--address=192.0.2.8", "--port=99"), "https://192.0.2.8:99/configz", "/var/lib/kubelet/pki/kubelet.crt"),
        ({"tlsCertFile": "/x/k.crt"}, (), "https://127.0.0.1:10250/configz", "/x/k.crt"),
        ({}, ("--tls-cert-file=/x/k.crt",), "https://127.0.0.1:10250/configz", "/x/k.crt"),
        (
            {"serverTLSBootstrap": True},
            (),
            "https://127.0.0.1:10250/configz",
            "/var/lib/kubelet/pki/kubelet-server-current.pem",
        ),
    ],
)
def test_it_is_asked_where_it_listens(config: Any, flags: tuple[str, ...], url: str, certificate: str) -> None:
    assert ask(config, *flags).requested == (url, certificate, None)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"enableServer": False}, "it serves no API"),
        ({"port": "x"}, "it serves no API"),
        ({"tlsCertFile": "/none.crt"}, "its certificate /none.crt is not there"),
    ],
)
def test_one_that_cannot_be_known_is_not_asked(config: Any, why: str) -> None:
    with pytest.raises(BallastError) as caught:
        ask(config)
    assert caught.value.id == "pulls-node-not-read-back"
    assert why in caught.value.text
