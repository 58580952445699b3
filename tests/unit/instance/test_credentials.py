# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Problems
from ansible_collections.ballast.kube.plugins.module_utils._instance.credentials import read_credentials
from ansible_collections.ballast.kube.plugins.module_utils._instance.spec import SPEC
from tests.unit.fakes import FakeHost

PKI = "/plane/pki"


def test_a_row_is_what_the_module_of_instances_takes() -> None:
    host = FakeHost()
    host.make_directory(f"{PKI}/nodes/n1")
    for name in ("kubelet", "kubelet-serving", "kube-proxy"):
        for end in ("crt", "key"):
            host.write(f"{PKI}/nodes/n1/{name}.{end}", f"{name} {end}".encode())
    host.write(f"{PKI}/ca.crt", b"authority")
    found = read_credentials(host, {"pki_dir": PKI, "nodes": ["n1"]})
    assert found["ca"] == "authority"
    (row,) = found["nodes"]
    assert set(row) == set(SPEC["credentials"]["options"])
    assert row["name"] == "n1"
    assert row["kubelet_serving_key"] == "kubelet-serving key"
    assert row["kube_proxy_certificate"] == "kube-proxy crt"


def test_what_is_not_there_yet_is_empty() -> None:
    found = read_credentials(FakeHost(), {"pki_dir": PKI, "nodes": ["n1", "n2"]})
    assert found["ca"] == ""
    assert [row["name"] for row in found["nodes"]] == ["n1", "n2"]
    assert {text for row in found["nodes"] for option, text in row.items() if option != "name"} == {""}


def test_a_name_that_leads_out_of_the_directory_is_refused() -> None:
    with pytest.raises(Problems) as caught:
        read_credentials(FakeHost(), {"pki_dir": PKI, "nodes": ["../../etc", "n1", "A/b"]})
    assert [error.id for error in caught.value.problems] == ["instance-name", "instance-name"]
