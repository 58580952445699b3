#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_image
short_description: "Internal: build disk images for the virtual machines of a lab"
version_added: 1.0.0
description:
  - Builds a disk image once and caches it under a key of all its inputs. The same input gives the same image.
  - The image is a Debian system that boots in a few seconds, or the content of a directory as a read-only disk.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
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
      - V(absent) removes every image of this name from the cache, including images that disks of machines are based on.
    type: str
    default: present
    choices: [present, absent]
  name:
    description: Name of the image in the cache. The default is the recipe's name.
    type: str
  recipe:
    description:
      - V(debian-13) is a Debian system with systemd, ssh, Python, containerd, runc and the tools of netfilter.
      - V(directory) is a read-only disk with the files of O(source).
      - V(kernel-uml), V(kernel-uml-built) and V(kernel-cloud) are the kernels with their modules. M(ballast.kube.lab_vm) builds the
        kernel it needs automatically.
    type: str
    default: debian-13
    choices: [debian-13, directory, kernel-cloud, kernel-uml, kernel-uml-built]
  source:
    description:
      - Directory whose files become the disk, required with O(recipe=directory). Symbolic links become what they point to.
    type: path
  packages:
    description: Debian packages to install in addition to those of the recipe.
    type: list
    elements: str
    default: []
  mirror:
    description:
      - Debian mirror to fetch packages from. The default is the one that the apt of this machine uses for Debian.
      - The image's key does not depend on it.
    type: str
  cache_dir:
    description: Directory of cached images.
    type: path
    default: /var/cache/ballast/vm
seealso:
  - module: ballast.kube.lab_vm
"""

EXAMPLES = r"""
- name: A Debian image
  ballast.kube.lab_image:
    recipe: debian-13
  register: image

- name: A disk with the binaries of Kubernetes
  ballast.kube.lab_image:
    name: binaries
    recipe: directory
    source: /opt/ballast/bin
  register: binaries
"""

RETURN = r"""
path:
  description: The image.
  returned: success
  type: str
key:
  description: Identifies all inputs of the image.
  returned: success
  type: str
digest:
  description: SHA-256 over the blocks of the image that are not zero, each with its number.
  returned: success
  type: str
size:
  description: Size of the image in bytes; most of a root disk is sparse and takes no disk space.
  returned: success
  type: int
packages:
  description: Debian packages in it, each with its version.
  returned: success
  type: list
  elements: str
build_seconds:
  description: Duration of the build, which may have happened in an earlier run.
  returned: success
  type: float
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
from ansible_collections.ballast.kube.plugins.module_utils._vm.image import ENGINE, SPEC, ImageRequest


def main():
    run(Feature(name="image", spec=SPEC, desired=from_options(ImageRequest.from_params), engine=ENGINE))


if __name__ == "__main__":
    main()
