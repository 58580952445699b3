# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A dozen of Kubernetes' own tests, run on a lab as its user runs them: what breaks a lab for applications shows here first."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from scripts.conformance import TOOLCHAIN
from tests.integration.lab import ROOT, Lab, Run

SECONDS = 600
# The ends of their names, without the marks behind. Chosen for what they reach: rules for Services, names, webhooks, pods that are resized.
TESTS = (
    "[sig-network] Services should serve a basic endpoint from pods",
    "[sig-network] Services should serve multiport endpoints from pods",
    "[sig-network] Services should be able to change the type from ExternalName to NodePort",
    "[sig-network] Services should be able to create a functioning NodePort service",
    "[sig-network] Services should have session affinity work for service with type clusterIP",
    "[sig-network] EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service",
    "[sig-network] DNS should resolve DNS of partial qualified names for services",
    "[sig-network] DNS should provide DNS for services",
    "[sig-network] DNS should support configurable pod DNS nameservers",
    "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate configmap",
    "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should deny crd creation",
    "[sig-node] Pod InPlace Resize Container guaranteed qos - 1 container with resize policy"
    " [Feature:InPlacePodVerticalScaling] no restart resizing mem",
)


def are_pinned(version: str) -> bool:
    return (TOOLCHAIN / version).is_dir()


def run_upstream_tests(lab: Lab) -> Run:
    focus = f"({'|'.join(map(re.escape, TESTS))})"
    argv = [sys.executable, "-m", "scripts.conformance", f"--lab-dir={lab.directory}", f"--focus={focus}"]
    # As `make conformance` has them.
    environment = {
        **os.environ,
        "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}/.build/collections:{ROOT}",
        "ANSIBLE_CONFIG": f"{ROOT}/ansible.cfg",
        "ANSIBLE_COLLECTIONS_PATH": f"{ROOT}/.build/collections",
    }
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    return Run(status=done.returncode, output=done.stdout + done.stderr)
