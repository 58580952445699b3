# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""containerd's configuration as kubespray lays it out. Source: kubespray, roles/container-engine/containerd/templates/config.toml.j2."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.engine import ENGINE
from tests.unit import cases
from tests.unit.pulls.node.fake_node import CRI_V2, MAIN, Node

V2 = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0

[grpc]
  max_recv_message_size = 16777216
  max_send_message_size = 16777216

[debug]
  level = "info"

[metrics]
  address = ""
  grpc_histogram = false

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.k8s.io/pause:3.10"
    max_container_log_line_size = 16384
    enable_unprivileged_ports = false
    enable_unprivileged_icmp = false
    [plugins."io.containerd.grpc.v1.cri".containerd]
      default_runtime_name = "runc"
      snapshotter = "overlayfs"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"
          runtime_engine = ""
          runtime_root = ""
          base_runtime_spec = "/etc/containerd/cri-base.json"

          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
            systemdCgroup = true
            binaryName = "/usr/local/bin/runc"
    [plugins."io.containerd.grpc.v1.cri".registry]
      config_path = "/etc/containerd/certs.d"

  [plugins."io.containerd.nri.v1.nri"]
    disable = false
"""
SET = '  [plugins."io.containerd.grpc.v1.cri"]\n'


def test_with_containerd_1_the_number_is_set_in_its_file_and_put_back() -> None:
    node = Node(version="1.7.27", main=V2)
    request = node.request(runtime={"max_concurrent_downloads": 8})
    steps = cases.plan_of(ENGINE, request, node.host).steps
    assert [step.title for step in steps] == [f"max_concurrent_downloads of {MAIN}"]
    cases.apply(ENGINE, request, node.host)
    assert node.containerd_has[CRI_V2]["max_concurrent_downloads"] == 8
    assert node.host.text(MAIN) == V2.replace(SET, f"{SET}    max_concurrent_downloads = 8\n")
    cases.apply(ENGINE, node.request(state="absent"), node.host)
    assert node.host.text(MAIN) == V2
