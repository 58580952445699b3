# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: what the modules of a control plane share.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/ballast.kube.control_plane) in C(module_defaults) to set the options that these modules share once.
    support: full
    membership:
      - ballast.kube.control_plane
      - ballast.kube.control_plane_backup
      - ballast.kube.control_plane_info
      - ballast.kube.control_plane_restore
options:
  state_dir:
    description: Directory of the control plane, with the record of everything that was made for it, its certificates, data and logs.
    type: path
    required: true
"""

    JWT = r"""
options:
  jwt:
    description:
      - OIDC issuers whose tokens the API server accepts beside client certificates and ServiceAccount tokens, and the users that the tokens
        name. Each entry is one of C(jwt) of C(AuthenticationConfiguration) (C(apiserver.config.k8s.io/v1)), in the same words.
      - Required are C(issuer.url) (C(https)), C(issuer.audiences) and C(claimMappings.username). C(issuer.certificateAuthority) is the PEM text
        of the authority that signed what the issuer serves with; without it those of the machine are trusted.
      - Give C(claimMappings.groups) a C(prefix), else any administrator of groups at the issuer can name C(system:masters).
      - A change restarts the API server. The issuer is asked after that, so tokens may be refused for some seconds.
    type: list
    elements: dict
    default: []
"""

    OPERATION = r"""
options:
  bin_dir:
    description:
      - Directory of etcd's binaries C(etcdctl) and C(etcdutl).
      - The default is the directory of the control plane's binaries. It is required if no control plane exists yet, or if it runs in one
        process with etcd inside.
    type: path
"""
