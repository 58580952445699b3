# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server that is slow for a while does not fail what reads from it."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import kubelet
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.patient_access import ATTEMPTS, PatientAccess
from tests.unit.fakes import FakeHost, json_answer

LATE = (
    TimeoutError("timed out"),
    TimeoutError("The read operation timed out"),
    ssl.SSLError("_ssl.c:1012: The handshake operation timed out"),
)
REFUSED = ConnectionRefusedError(111, "Connection refused")
NODE = "/api/v1/nodes/n1"


class Server:
    """It answers after these errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked = list(errors), 0

    def request(self, _host: Any, target: str, *, method: str, **_rest: Any) -> Response:
        self.asked += 1
        if self.errors:
            raise no_answer_error(method, target, self.errors.pop(0))
        return json_answer(200, {"kind": "Node"})


def patient(server: Server) -> Api:
    return Api(FakeHost(), PatientAccess(server))  # type: ignore[arg-type]


@pytest.mark.parametrize("error", LATE, ids=str)
def test_an_answer_that_came_too_late_is_asked_for_again(error: Exception) -> None:
    server = Server(*[error] * (ATTEMPTS - 1))
    assert patient(server).get(NODE) == {"kind": "Node"}
    assert server.asked == ATTEMPTS


@pytest.mark.parametrize(
    ("errors", "asked"),
    [([LATE[0]] * ATTEMPTS, ATTEMPTS), ([REFUSED], 1), ([LATE[0], REFUSED], 2)],
    ids=["always late", "refused", "late, then refused"],
)
def test_it_ends_and_a_refusal_is_believed(errors: list[Exception], asked: int) -> None:
    server = Server(*errors)
    with pytest.raises(PeerError) as caught:
        patient(server).get(NODE)
    assert (caught.value.id, server.asked) == ("core-no-answer", asked)


def test_what_changes_something_is_sent_once() -> None:
    server = Server(LATE[0])
    with pytest.raises(PeerError):
        patient(server).patch(NODE, {"metadata": {"labels": {"x": "y"}}})
    assert server.asked == 1


def test_the_kubelets_client_is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(LATE[0])
    monkeypatch.setattr(kubelet, "credentials_of", lambda _host: server)
    assert kubelet.api(FakeHost()).get(NODE) == {"kind": "Node"}
