# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: which API server, and as whom.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig on the machine where the module runs, YAML or JSON. It is read as kubectl reads it; several, with colons between
        them, are merged as kubectl merges those of E(KUBECONFIG).
      - Without it, the module uses the first of these that exists - the environment variable E(K8S_AUTH_KUBECONFIG), E(KUBECONFIG), the
        ServiceAccount of the pod that it runs in (without O(context)), C(~/.kube/config).
      - A client certificate or a token need no Python package. Credential plugins (C(exec)), C(auth-provider), C(proxy-url), C(tls-server-name) and
        C(insecure-skip-tls-verify) need the package C(kubernetes) on the machine where the module runs. Passwords and impersonation are refused.
      - A kubeconfig that other users may write, or that belongs neither to root nor to the user that the module runs as, is refused.
    type: path
  context:
    description:
      - The context of the kubeconfig. The default is the environment variable E(K8S_AUTH_CONTEXT), else the current context.
    type: str
"""
