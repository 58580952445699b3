#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_pull_proxy
short_description: Limit image pulls of a whole host, with a proxy between its kubelets and their runtimes
version_added: 1.0.0
description:
  - Installs and runs C(ballast-pull-proxy). It listens on one socket per kubelet of the host and passes all requests to that kubelet's
    container runtime, but queues image pulls while O(max_in_flight) are in flight. See C(docs/pull-proxy.md).
  - It changes no kubelet. C(imageServiceEndpoint) points a kubelet to its socket, see M(ballast.kube.image_pulls); the role
    C(ballast.kube.image_pull_proxy) does both.
  - The running proxy applies changed limits without ending a pull. A change of O(listeners) or O(metrics), or a new version of the
    program, restarts it; running pulls may finish within O(drain).
  - A failed change is rolled back. The module waits until the running proxy reports these settings.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.progress_log
  - ballast.kube._image_pull_proxy
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) stops the proxy and removes all of it. Point the kubelets back to their runtimes first.
    type: str
    default: present
    choices: [present, absent]
  listeners:
    description: One socket per kubelet of this host. Required for O(state=present). The list is complete - other sockets are removed.
    type: list
    elements: dict
    suboptions:
      socket:
        description:
          - Where the kubelet connects to, a path or a C(unix://) URL. Its directory is created with mode 0700 if it does not exist, and refused if
            other users may enter it. V(/run/ballast-pull-proxy/NAME.sock) is a good place; for CRI-O one that ends in C(run/crio/crio.sock).
        type: str
        required: true
      runtime:
        description: Where the container runtime of that kubelet listens, such as V(/run/containerd/containerd.sock).
        type: str
        required: true
      name:
        description: Name of the kubelet in metrics, status and log. The default is the socket.
        type: str
  max_in_flight:
    description: Maximum number of pulls in flight at all runtimes of this host together. V(0) means no limit. Required for O(state=present).
    type: int
  on_full:
    description:
      - V(block) queues a pull until a slot is free.
      - V(retry) retries as configured in O(retry), and then fails with C(TooManyPullingInParallelErr), so that the kubelet backs off.
    type: str
    choices: [block, retry]
    default: block
  retry:
    description: For O(on_full=retry).
    type: dict
    suboptions:
      attempts:
        description: Number of retries.
        type: int
        default: 3
      interval:
        description: Time between two attempts.
        type: str
        default: 10s
  join:
    description: Whether concurrent pulls of one image with the same credentials share a single pull and one slot.
    type: bool
    default: true
  present:
    description:
      - V(pass) passes every pull to the runtime.
      - V(succeed) succeeds at once for an image that the runtime has. Then credentials are not checked, and a moved tag is not noticed.
    type: str
    choices: [pass, succeed]
    default: pass
  order:
    description: Which pull is next when one has finished, V(fifo) or V(priority).
    type: str
    choices: [fifo, priority]
    default: fifo
  priority:
    description: For O(order=priority).
    type: dict
    suboptions:
      annotation:
        description: Pod annotation with the priority, an integer. M(ballast.kube.image_pull_priority) makes the API server set one.
        type: str
      namespaces:
        description: Priority of pods without that annotation, by namespace. By default pods of C(kube-system) come first.
        type: dict
      ageing:
        description: Requests older than this precede newer ones.
        type: str
        default: 60s
  metrics:
    description: Loopback address and port, V(127.0.0.1:PORT), where C(/metrics) is served for Prometheus. Off by default.
    type: str
  drain:
    description: How long running pulls may continue when the proxy is stopped.
    type: str
    default: 30s
requirements:
  - on the host, for C(/usr/bin/python3), Debian's packages python3-grpcio, python3-hpack, python3-prometheus-client and python3-yaml
seealso:
  - module: ballast.kube.image_pull_proxy_info
  - module: ballast.kube.image_pull_priority
  - module: ballast.kube.image_pulls
  - module: ballast.kube.node
"""

EXAMPLES = r"""
- name: Allow at most three pulls at once on this host
  ballast.kube.image_pull_proxy:
    max_in_flight: 3
    listeners:
      - name: kubelet
        socket: /run/ballast-pull-proxy/kubelet.sock
        runtime: /run/containerd/containerd.sock

- name: Two kubelets with a runtime each, pods of high priority first
  ballast.kube.image_pull_proxy:
    max_in_flight: 4
    order: priority
    priority:
      annotation: image-pulls.ballast.dev/priority
    metrics: 127.0.0.1:9455
    listeners:
      - name: n1
        socket: /run/ballast-pull-proxy/n1.sock
        runtime: /run/ballast/lab/n1/containerd.sock
      - name: n2
        socket: /run/ballast-pull-proxy/n2.sock
        runtime: /run/ballast/lab/n2/containerd.sock

- name: Take it away
  ballast.kube.image_pull_proxy:
    state: absent
"""

RETURN = r"""
command:
  description: Path of the command. C(ballast-pull-proxy status --config CONFIG_PATH) shows current pulls.
  returned: success, not in check mode
  type: str
  sample: /usr/local/bin/ballast-pull-proxy
config_path:
  description: Path of its settings.
  returned: success, not in check mode
  type: str
  sample: /etc/ballast/pull-proxy.json
log:
  description: Path of its log, with a line for each pull.
  returned: success, not in check mode
  type: str
  sample: /var/log/ballast-pull-proxy/pull-proxy.log
pid:
  description: Process of the proxy; null where none runs.
  returned: success, not in check mode
  type: int
status:
  description: Output of C(ballast-pull-proxy status --json); null if the proxy does not respond.
  returned: success, not in check mode
  type: dict
steps:
  description: Completed steps in order; in check mode, planned steps.
  returned: success
  type: list
  elements: dict
  sample: [{kind: pull-proxy, verb: change, title: service ballast-pull-proxy, target: /var/lib/ballast/pull-proxy/sv/ballast-pull-proxy}]
findings:
  description: Problems that do not stop the run.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.feature import FEATURE


def main() -> None:
    run(FEATURE)


if __name__ == "__main__":
    main()
