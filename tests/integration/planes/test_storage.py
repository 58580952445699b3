# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What lies in etcd: secrets as they were sent, encrypted."""

from __future__ import annotations

import base64
import subprocess

from tests.integration.plane_client import Client
from tests.integration.plane_lab import Plane
from tests.integration.planes.promise import ENCRYPTION
from tests.integration.planes.test_objects import config_map, config_maps

WORD = "a-word-that-nobody-may-read"


def stored(plane: Plane, key: str) -> bytes:
    etcd = plane.record.etcd
    files = {"cacert": etcd.authority, "cert": etcd.client, "key": etcd.key}
    options = [f"--{name}={path}" for name, path in files.items()]
    done = subprocess.run(
        [plane.bin("etcdctl"), f"--endpoints={etcd.endpoints[0]}", *options, "get", key, "--print-value-only"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_secrets_are_encrypted_at_rest(plane: Plane, admin: Client, namespace: str) -> None:
    at = f"/api/v1/namespaces/{namespace}/secrets"
    admin.create(at, {"metadata": {"name": "kept"}, "stringData": {"word": WORD}})
    admin.create(config_maps(namespace), config_map("open", {"word": WORD}))
    found = stored(plane, f"/registry/secrets/{namespace}/kept")
    assert found.startswith(f"k8s:enc:{ENCRYPTION[str(plane.params['profile'])]}:v1:".encode())
    assert WORD.encode() not in found
    # What the test would see if it were not.
    assert WORD.encode() in stored(plane, f"/registry/configmaps/{namespace}/open")
    assert base64.b64decode(admin.get(f"{at}/kept")["data"]["word"]).decode() == WORD
