# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holders of client certificates that an authority of a plane signed, or another."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import (
    CLIENT,
    Certificate,
    CertificateKind,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.integration.plane_client import Client
from tests.integration.plane_lab import Plane

RBAC = "rbac.authorization.k8s.io"


def holder(plane: Plane, place: Path, user: str, *, group: str = "", authority: str = "") -> Client:
    """A client with a certificate for this user, signed by the plane's CA or by the one at a path."""
    certificate = Certificate(
        path=str(place / f"{user}.crt"),
        issuer=authority or plane.pki("ca.crt"),
        common_name=user,
        organization=group,
        usages=(CLIENT,),
        days=1,
    )
    _write(certificate)
    return Client(plane.record.endpoint, ca=plane.pki("ca.crt"), certificate=certificate.path)


def foreign_authority(place: Path) -> str:
    certificate = Certificate(path=str(place / "foreign-ca.crt"), issuer=None, common_name="ballast-foreign-ca")
    _write(certificate)
    return certificate.path


def allow(admin: Client, namespace: str, user: str, *, name: str, verbs: list[str], resources: list[str]) -> None:
    """A role in the namespace for this user, on resources of the core group."""
    at = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    rule = {"apiGroups": [""], "resources": resources, "verbs": verbs}
    admin.create(f"{at}/roles", {"metadata": {"name": name}, "rules": [rule]})
    admin.create(
        f"{at}/rolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        },
    )


def _write(certificate: Certificate) -> None:
    wanted = certificate.resource(group="")
    CertificateKind().write(Context(None, LocalHost()), wanted.target, wanted.value, None)
