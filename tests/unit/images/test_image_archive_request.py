# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests of archives: which are refused, and that all of their problems are reported at once."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import (
    PRESETS,
    ImageArchiveRequest,
    _problems_of,
)
from tests.unit.images.debian_host import DEFINITION, REQUEST

BAD_REQUESTS = [
    ("image-path", {"path": "relative.tar"}),
    ("image-path", {"path": "/etc/passwd"}),
    ("image-none", {"images": []}),
    ("image-name", {"definitions": [{**DEFINITION, "name": "Busybox"}]}),
    ("image-name", {"definitions": [{**DEFINITION, "name": "busybox:1"}]}),
    ("image-name-twice", {"definitions": [{**DEFINITION, "name": "ballast.local/pause:1"}]}),
    ("image-names", {"names": {"etcd": "example.local/etcd:1"}}),
    ("image-name", {"names": {"pause": "pause:3"}}),
    ("image-name-twice", {"names": {"pause": "a.local/a:1", "busybox": "a.local/a:1"}}),
    ("image-bin-dir", {"images": ["etcd"]}),
    ("image-package", {"definitions": [{**DEFINITION, "packages": ["--allow-unauthenticated"]}]}),
    ("image-package", {"definitions": [{**DEFINITION, "whole": ["--allow-unauthenticated"]}]}),
    ("image-file", {"definitions": [{**DEFINITION, "files": [{"path": "/../etc/x", "content": ""}]}]}),
    ("image-file", {"definitions": [{**DEFINITION, "files": [{"path": "/x", "source": "/a", "content": "b"}]}]}),
    ("image-file", {"definitions": [{**DEFINITION, "files": [{"path": "/x", "source": "/a/../b"}]}]}),
    ("image-file", {"definitions": [{**DEFINITION, "links": [{"path": "x", "to": "y"}]}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "links": [{"path": "/tool", "to": "y"}]}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "links": [{"path": "/tool/x", "to": "y"}]}]}),
    ("image-env", {"definitions": [{**DEFINITION, "env": {"A B": "c"}}]}),
    ("image-mode", {"definitions": [{**DEFINITION, "files": [{"path": "/x", "content": "", "mode": "493"}]}]}),
    ("image-mode", {"definitions": [{**DEFINITION, "files": [{"path": "/x", "content": "", "mode": "4755"}]}]}),
    ("image-mode", {"definitions": [{**DEFINITION, "directories": [{"path": "/x", "mode": "u+rwx"}]}]}),
    ("image-directory", {"definitions": [{**DEFINITION, "directories": [{"path": "x", "mode": "0755"}]}]}),
    ("image-directory", {"definitions": [{**DEFINITION, "working_dir": "/a/.."}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "directories": [{"path": "/tool", "mode": "0755"}]}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "directories": [{"path": "/tool/x", "mode": "0755"}]}]}),
    ("image-file-twice", {"definitions": [{**DEFINITION, "directories": [{"path": "/x", "mode": "0755"}] * 2}]}),
    ("image-user", {"definitions": [{**DEFINITION, "user": "me and you"}]}),
    ("image-user", {"definitions": [{**DEFINITION, "user": "1000:"}]}),
]


@pytest.mark.parametrize(("id", "change"), BAD_REQUESTS)
def test_a_bad_request_is_refused(id: str, change: dict[str, Any]) -> None:
    with pytest.raises(BallastError) as raised:
        ImageArchiveRequest.from_params({"path": "/x.tar", **REQUEST, **change})
    assert raised.value.id == id


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(Problems) as raised:
        ImageArchiveRequest.from_params(
            {**REQUEST, "path": "x", "definitions": [{**DEFINITION, "name": "A", "packages": ["-"]}]}
        )
    assert [problem.id for problem in raised.value.problems] == ["image-path", "image-name", "image-package"]


def test_the_presets_hold_to_the_rules_of_definitions() -> None:
    for image in PRESETS.values():
        assert list(_problems_of(image, where=image.name)) == []
