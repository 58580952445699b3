# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths of an instance's parts on its host. Pure."""

from __future__ import annotations

import os

from .._core.host.names import run_directory
from .model import SERVICE_PROXY, Instance, InstancesRequest


def home_of(desired: InstancesRequest, instance: Instance) -> str:
    """The directory of an instance's files, which stay when it is stopped."""
    return os.path.join(desired.state_dir, instance.name)


def services_directory(desired: InstancesRequest, instance: Instance) -> str:
    return os.path.join(home_of(desired, instance), "sv")


def service_target(desired: InstancesRequest, instance: Instance, name: str) -> str:
    """The target of the service's resource."""
    return os.path.join(services_directory(desired, instance), desired.unit(instance, name))


def log_path(desired: InstancesRequest, instance: Instance, name: str) -> str:
    return os.path.join(home_of(desired, instance), "log", f"{name}.log")


def mountns_path(lab: str, instance: str) -> str:
    """The file to which an instance's mount namespace is bound."""
    return f"{run_directory(lab)}/{instance}.mnt"


def containerd_directory(lab: str, instance: str) -> str:
    """The directory that an instance's containerd sees as /run/containerd."""
    return f"{run_directory(lab)}/{instance}"


def service_proxy_directory(lab: str, instance: str) -> str:
    """The directory of its ballast-service-proxy's sockets. Names have no dots, so no instance's containerd_directory collides."""
    return f"{containerd_directory(lab, instance)}.{SERVICE_PROXY}"
