"""Whatever was encrypted, in whatever order of choices, can still be read."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.encryption import (
    KIND,
    EncryptionKind,
    encryption_path,
    encryption_resources,
    keep_former_encryption,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import State
from tests.unit.control_plane.given import desired
from tests.unit.fakes import FakeHost

RESOURCES = ["secrets", "configmaps", "leases.coordination.k8s.io"]
CHOICES = st.tuples(
    st.sampled_from(["none", "secretbox", "aesgcm"]), st.lists(st.sampled_from(RESOURCES), min_size=1, unique=True)
)


def apply(host: FakeHost, encryption: str, resources: list[str], *, in_use: bool) -> bool:
    """One run; whether the API server is told of a configuration afterwards."""
    plane = desired(profile="generic", encryption=encryption, encryption_resources=resources)
    path, kind = encryption_path(plane), EncryptionKind()
    found = kind.read(Context(None, host), path)
    state = State(recorded=(), values={} if found is None else {(KIND, path): found}, wanted=())
    wanted = encryption_resources(keep_former_encryption(plane, state, in_use=in_use), group="")
    for resource in wanted:
        if found != resource.value:
            kind.write(Context(None, host), path, resource.value, found)
        assert kind.read(Context(None, host), path) == resource.value
    return bool(wanted)


def ring(host: FakeHost) -> dict[str, list[tuple[str, str]]]:
    """By resource, provider and key in the order of trying."""
    path = encryption_path(desired())
    if host.stat(path) is None:
        return {}
    return {
        name: [
            (provider, settings["keys"][0]["secret"] if settings else "")
            for each in row["providers"]
            for provider, settings in each.items()
        ]
        for row in json.loads(host.text(path))["resources"]
        for name in row["resources"]
    }


@given(st.lists(CHOICES, min_size=1, max_size=6))
def test_what_was_ever_written_stays_readable(choices):
    host, in_use = FakeHost(), False
    host.given_directory(desired().at("config"))
    written: set[tuple[str, str, str]] = set()
    for encryption, resources in choices:
        in_use = apply(host, encryption, resources, in_use=in_use)
        now = ring(host)
        written |= {(name, *providers[0]) for name, providers in now.items()}
        assert {name for name, providers in now.items() if providers[0][0] == encryption != "identity"} == (
            set() if encryption == "none" else set(resources)
        )
        for name, provider, key in written:
            # Without a row the API server reads plain text alone.
            assert (provider, key) in now.get(name, [("identity", "")])
        assert all(("identity", "") in providers for providers in now.values())
