# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A confined program: the command that becomes it. tests/integration/test_confine.py runs it as root."""

from __future__ import annotations

import json
import subprocess

from ansible_collections.ballast.kube.plugins.module_utils._vm.confine import Confinement, confine, own_uid


def test_the_program_runs_as_a_text_without_the_package_around_it() -> None:
    argv = confine(["true"], Confinement(program="/bin/true", uid=0x70000001), wait=True)
    done = subprocess.run([*argv[:-1], "no order"], capture_output=True, text=True, timeout=60)
    assert done.stderr.startswith("ballast: cannot confine: Expecting value"), done.stderr


def test_the_order_is_the_confinement() -> None:
    *program, order = confine(["kernel", "mem=1M"], Confinement(program="/k", uid=7, reads=("/a",), scratch={"/s": 1}))
    assert program[1:3] == ["-IS", "-c"]
    told = json.loads(order)
    assert (told["argv"], told["program"], told["uid"], told["wait"]) == (["kernel", "mem=1M"], "/k", 7, False)
    assert (told["reads"], told["writes"], told["scratch"]) == (["/a"], [], {"/s": 1})


def test_a_user_is_of_one_identity_in_a_range_that_nobody_hands_out() -> None:
    uids = {own_uid(f"machine {number}") for number in range(1000)}
    assert len(uids) > 990
    assert own_uid("machine 1") in uids
    assert 0x70000000 <= min(uids) <= max(uids) < 0x80000000
