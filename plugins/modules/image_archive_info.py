#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_archive_info
short_description: List the images of an archive
version_added: 1.0.0
author:
  - ballast.kube contributors (@ballast-kube)
description:
  - Reads an archive that M(ballast.kube.image_archive) wrote, or any OCI image layout in a tar file that also has docker's
    C(manifest.json), and verifies all digests in it.
extends_documentation_fragment:
  - ballast.kube._attributes.info_module
options:
  path:
    description: The archive, an absolute path that ends in C(.tar).
    type: path
    required: true
seealso:
  - module: ballast.kube.image_archive
"""

EXAMPLES = r"""
- name: Read the images of the lab
  ballast.kube.image_archive_info:
    path: /var/cache/ballast/images/lab.tar
  register: archive
"""

RETURN = r"""
path:
  description: The archive.
  returned: success
  type: str
  sample: /var/cache/ballast/images/lab.tar
present:
  description: Whether it exists.
  returned: success
  type: bool
size:
  description: Size of the archive in bytes; 0 if it does not exist.
  returned: success
  type: int
images:
  description: The images in it.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Full name.
      type: str
      sample: ballast.local/pause:1
    digest:
      description: Digest of the manifest, as C(ctr images ls) shows it.
      type: str
      sample: sha256:6c3835cab3980f11b83277305d0d736051c32b17606f5ec59f1dda67c9ba3810
    config_digest:
      description: Digest of the configuration, which the container runtime interface calls the image's id.
      type: str
      sample: sha256:1d63b6a4b4ad5b4c4d9e7a2a0f87bf5a4bd1d6ad1d4d5e0b90c8e3a5b1c2d3e4
    packages:
      description: Packages of its files, with versions; empty for an archive from elsewhere.
      type: list
      elements: str
      sample: [catatonit=0.1.7-1+b2]
seconds:
  description: Seconds spent in C(report).
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import report_of, run_info
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import from_options
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import INFO_SPEC, ImageArchiveRequest
from ansible_collections.ballast.kube.plugins.module_utils._images.engine import ENGINE


def main() -> None:
    run_info(INFO_SPEC, report_of(ENGINE, from_options(ImageArchiveRequest.from_params)), needs_root=False)


if __name__ == "__main__":
    main()
