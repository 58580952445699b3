// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// tokenGetter looks up what a service account's token was issued for: the account and, of old tokens, the secret. Tokens that are bound to pods or nodes
// are of another control plane. Without listers nothing is found.
type tokenGetter struct {
	accounts corelisters.ServiceAccountLister
	secrets  corelisters.SecretLister
}

// newTokenGetter starts no informers for what is not served, since they would never sync. A token that cannot be looked up is refused.
func newTokenGetter(served resourceSet) func(informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
	return func(factory informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
		var getter tokenGetter
		core := factory.Core().V1()
		if served.Has(parseResource("serviceaccounts")) {
			getter.accounts = core.ServiceAccounts().Lister()
		}
		if served.Has(parseResource("secrets")) {
			getter.secrets = core.Secrets().Lister()
		}
		return getter
	}
}

func (g tokenGetter) serviceAccount(namespace, name string) (*corev1.ServiceAccount, error) {
	if g.accounts == nil {
		return nil, notServed("serviceaccounts", name)
	}
	return g.accounts.ServiceAccounts(namespace).Get(name)
}

func (g tokenGetter) secret(namespace, name string) (*corev1.Secret, error) {
	if g.secrets == nil {
		return nil, notServed("secrets", name)
	}
	return g.secrets.Secrets(namespace).Get(name)
}

func notServed(resource, name string) error {
	return apierrors.NewNotFound(corev1.Resource(resource), name)
}
