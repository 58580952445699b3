# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where containerd's drop-in goes, which ctr asks for its health, and what that says."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import ProcessId
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Unavailable
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.containerd import (
    FILE_NAME,
    Containerd,
    drop_in_path,
    plugin_problem,
    require_ctr,
)
from tests.unit.fakes import FakeHost

_CONFIG = "/etc/containerd/config.toml"
_CRI = "io.containerd.grpc.v1 cri linux/amd64"


@pytest.mark.parametrize(
    ("imports", "directory"),
    [
        ('["/etc/containerd/conf.d/*.toml"]', "/etc/containerd/conf.d"),
        ('["conf.d/*.toml"]', "/etc/containerd/conf.d"),  # relative to the file that has it
        ('["/a/one.toml", "/b/*.toml", "/c/*.toml"]', "/b"),  # the first that takes our name
        ('["/a/[0-9]*.toml"]', "/a"),
        # A file that is named is somebody's, also with our name; in a directory that is a pattern there is no one place.
        (f'["/a/{FILE_NAME}"]', ""),
        ('["/etc/*/conf.d/*.toml"]', ""),
        ('["/etc/containerd/[a-c]/*.toml"]', ""),
        ('["/a/*.conf"]', ""),
        ("[]", ""),
    ],
)
def test_the_drop_in_goes_where_containerd_reads_any_file(imports: str, directory: str) -> None:
    main = f"version = 2\nimports = {imports}\n"
    if directory:
        assert drop_in_path(main, _CONFIG) == f"{directory}/{FILE_NAME}"
        return
    with pytest.raises(BallastError) as caught:
        drop_in_path(main, _CONFIG)
    assert caught.value.id == "pulls-node-runtime-config"


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([f"{_CRI} ok"], ""),
        ([f"{_CRI} error"], "plugin io.containerd.grpc.v1.cri: error"),
        ([f"{_CRI} skip"], "plugin io.containerd.grpc.v1.cri: skip"),  # as with disabled_plugins
        ([f"{_CRI} ok", "io.containerd.cri.v1 images - error"], "plugin io.containerd.cri.v1.images: error"),
        ([f"{_CRI} ok", "io.containerd.cri.v1 runtime linux/amd64 skip"], "plugin io.containerd.cri.v1.runtime: skip"),
        ([f"{_CRI} ok", "io.containerd.snapshotter.v1 zfs linux/amd64 skip"], ""),  # of no concern to pulls
        (["io.containerd.grpc.v1 images - ok"], "it has no CRI plugin"),
        ([], "it has no CRI plugin"),
    ],
)
def test_a_plugin_that_is_not_ok_is_named(rows: list[str], problem: str) -> None:
    assert plugin_problem("\n".join(["TYPE ID PLATFORMS STATUS", *rows, ""])) == problem


def test_the_ctr_beside_containerd_comes_before_that_of_the_path() -> None:
    containerd = Containerd(ProcessId(1, 0), "/opt/bin", _CONFIG, (2, 1))
    host = FakeHost()
    with pytest.raises(Unavailable):
        require_ctr(host, containerd)
    host.on("ctr", answer="")
    assert require_ctr(host, containerd) == "/usr/bin/ctr"
    host.given("/opt/bin/ctr")
    assert require_ctr(host, containerd) == "/opt/bin/ctr"
