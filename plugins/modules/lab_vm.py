#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_vm
short_description: "Internal: run the virtual machines of a lab"
version_added: 1.0.0
description:
  - Boots virtual machines on a bridge of this machine and waits until each responds to ssh; stops and removes them.
  - A machine's disk contains the differences from its image; it is kept while the machine is stopped, and removed with the machine.
  - The options are the complete desired state. A machine that is no longer in O(vms) is removed with its disk.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.state_dir
  - ballast.kube._attributes.progress_log
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) boots stopped machines, and reboots those whose options have changed.
      - V(stopped) powers them off and keeps their disks.
      - V(absent) ends and removes every machine of O(state_dir), with its disk.
    type: str
    default: present
    choices: [present, stopped, absent]
  engine:
    description:
      - What runs the machines. V(kvm) and V(tcg) are QEMU with hardware virtualization and with software emulation. V(uml) is User Mode
        Linux, a kernel that runs as a process; it needs no hardware virtualization, runs at native speed, and has one processor.
      - V(auto) is the first of V(kvm), V(uml) and V(tcg) that boots within a time limit. The module tries this once per boot of this
        machine, also in check mode, and caches the result in O(cache_dir). Existing machines keep their engine.
    type: str
    default: auto
    choices: [auto, kvm, uml, tcg]
  uml_kernel:
    description:
      - The kernel for O(engine=uml). V(debian) is the kernel of the package user-mode-linux, which lacks nftables for IP.
      - V(built) is built from Debian's kernel source, once, into O(cache_dir); it has nftables, iptables and ipvs.
    type: str
    default: debian
    choices: [debian, built]
  image:
    description: Root image that M(ballast.kube.lab_image) built. Required unless O(state=absent).
    type: path
  bridge:
    description: Bridge that the machines are attached to. Required unless O(state=absent).
    type: str
  disks:
    description: Read-only disks for every machine, images of the recipe V(directory) of M(ballast.kube.lab_image).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The image.
        type: path
        required: true
      mount:
        description: Its mount point in the machine.
        type: path
        required: true
  key_owner:
    description:
      - User id that owns the ssh key, for when root runs this task but another user runs Ansible against the machines.
    type: int
    default: 0
  vms:
    description: The machines.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name, also the machine's host name.
        type: str
        required: true
      address:
        description: IPv4 address with prefix length, such as V(10.97.0.101/24).
        type: str
        required: true
      gateway:
        description: Address of the default route, usually that of the bridge. When omitted, the machine has no default route.
        type: str
      memory_mib:
        description: Memory in MiB.
        type: int
        default: 1024
      cpus:
        description: Number of processors. V(uml) supports one.
        type: int
        default: 1
  cache_dir:
    description: Directory of cached images and kernels.
    type: path
    default: /var/cache/ballast/vm
seealso:
  - module: ballast.kube.lab_image
  - module: ballast.kube.lab_vm_info
"""

EXAMPLES = r"""
- name: A Debian image
  ballast.kube.lab_image:
    recipe: debian-13
  register: image

- name: A disk with binaries
  ballast.kube.lab_image:
    name: binaries
    recipe: directory
    source: /opt/binaries
  register: binaries

- name: Two virtual machines
  ballast.kube.lab_vm:
    state_dir: /var/lib/ballast/lab/vms
    image: "{{ image.path }}"
    bridge: ballast-lab
    disks:
      - path: "{{ binaries.path }}"
        mount: /opt/ballast/bin
    vms:
      - name: vm1
        address: 10.97.0.101/24
        gateway: 10.97.0.1
      - name: vm2
        address: 10.97.0.102/24
        gateway: 10.97.0.1
        memory_mib: 2048
  register: lab_vms

- name: Their tasks
  ansible.builtin.add_host:
    name: "{{ item.name }}"
    ansible_host: "{{ item.address }}"
    ansible_user: root
    ansible_ssh_private_key_file: "{{ lab_vms.ssh_key }}"
    ansible_ssh_common_args: "{{ item.ssh_arguments }}"
  loop: "{{ lab_vms.vms }}"

- name: Stop them and keep their data
  ballast.kube.lab_vm:
    state: stopped
    state_dir: /var/lib/ballast/lab/vms
    image: "{{ image.path }}"
    bridge: ballast-lab
    vms:
      - name: vm1
        address: 10.97.0.101/24

- name: Remove them
  ballast.kube.lab_vm:
    state: absent
    state_dir: /var/lib/ballast/lab/vms
"""

RETURN = r"""
engine:
  description: What runs the machines; empty when there are none.
  returned: success
  type: str
  sample: uml
why:
  description: Why this engine was chosen.
  returned: success
  type: str
  sample: "kvm: /dev/kvm does not exist; uml boots"
ssh_key:
  description: Private key with which root logs in.
  returned: success
  type: str
vms:
  description: The machines.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    address:
      description: Its address.
      type: str
    engine:
      description: What runs it.
      type: str
    running:
      description: Whether it is running.
      type: bool
    pid:
      description: Its process id, 0 when it is not running.
      type: int
    console:
      description: File with its console output.
      type: str
    ssh_arguments:
      description: Options for ssh, in addition to the key.
      type: str
steps:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of resource.
      type: str
    verb:
      description: V(make), V(change) or V(remove).
      type: str
    title:
      description: The resource, in words.
      type: str
    target:
      description: What identifies it within its kind.
      type: str
findings:
  description: Problems found afterwards.
  returned: always
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: always
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options
from ansible_collections.ballast.kube.plugins.module_utils._vm.model import SPEC, VmRequest
from ansible_collections.ballast.kube.plugins.module_utils._vm.vm import ENGINE


def main():
    run(Feature(name="vm", spec=SPEC, desired=from_options(VmRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
