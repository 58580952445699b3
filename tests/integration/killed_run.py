# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`python -m tests.integration.killed_run OPTIONS KILL_AT`: what the module kube_proxy does, ended by SIGKILL after the
KILL_AT-th line that it writes into its journal; 0 is never. Prints the steps that it did, as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys

from ansible_collections.ballast.kube.plugins.module_utils._core.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._core.events import FileSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.ledger import Ledger
from ansible_collections.ballast.kube.plugins.module_utils._core.plan import Step
from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration.request import SPEC, KubeProxy


def main() -> None:
    given, at = json.loads(sys.argv[1]), int(sys.argv[2])
    if at:
        _kill_at(at)
    desired, host = (
        KubeProxy.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **given}),
        LocalHost(),
    )
    progress = Progress(FileSink(os.path.join(desired.state_dir, "events.jsonl")), feature="kube-proxy")
    try:
        plan = ENGINE.plan(desired, ENGINE.observe(desired, host))
        ENGINE.require(desired, host)
        ENGINE.apply(plan, desired, host, progress)
    except BallastError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(ENGINE.told(plan)["steps"]))


def _kill_at(at: int) -> None:
    written = 0
    for name in ("doing", "done"):
        plain = getattr(Ledger, name)

        def counted(self: Ledger, step: Step, plain=plain) -> None:  # type: ignore[no-untyped-def]
            nonlocal written
            plain(self, step)
            written += 1
            if written == at:
                os.kill(os.getpid(), signal.SIGKILL)

        setattr(Ledger, name, counted)


if __name__ == "__main__":
    main()
