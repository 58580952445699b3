// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	utilwait "k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/klog/v2"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

const (
	// Some 150 roles and bindings, each of which is a write to the disk on a first start: etcd writes those together that come together.
	rolesAtOnce  = 16
	rolesRetry   = 200 * time.Millisecond
	rolesWatched = 20 * time.Millisecond // how often is asked whether the authorizer has seen them
	rolesTimeout = 30 * time.Second      // upstream's, after which the server ends
)

// promptRoles is upstream's provider with another hook. Upstream's waits for a second before it begins, and makes one role after the other:
// more than half of the time from the start to readiness.
type promptRoles struct {
	rbacrest.RESTStorageProvider
	made chan<- struct{} // closed when all are there
}

func withPromptRoles(providers []controlplaneapiserver.RESTStorageProvider, made chan<- struct{}) []controlplaneapiserver.RESTStorageProvider {
	for i, provider := range providers {
		if roles, ok := provider.(rbacrest.RESTStorageProvider); ok {
			providers[i] = promptRoles{roles, made}
		}
	}
	return providers
}

func (p promptRoles) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	return rbacrest.PostStartHookName, func(hook genericapiserver.PostStartHookContext) error {
		client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
		if err != nil {
			return err
		}
		steps := roleSteps(client)
		defer close(p.made) // without them the server ends by itself, and nothing is to wait on
		return utilwait.PollUntilContextTimeout(hook, rolesRetry, rolesTimeout, true, func(ctx context.Context) (bool, error) {
			err := atOnce(ctx, steps)
			if err != nil {
				klog.InfoS("roles are not all there yet", "reason", err.Error())
			}
			return err == nil, nil
		})
	}, nil
}

// atOnce runs all steps, several at a time.
func atOnce(ctx context.Context, steps []func() error) error {
	var lock sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, rolesAtOnce, len(steps), func(i int) {
		if err := steps[i](); err != nil {
			lock.Lock()
			defer lock.Unlock()
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

// roleSteps make each of the roles and bindings that every control plane has, or add what one lacks.
func roleSteps(client kubernetes.Interface) []func() error {
	var steps []func() error
	role := func(owner reconciliation.RuleOwner, modifier reconciliation.RuleOwnerModifier) {
		steps = append(steps, func() error {
			_, err := (&reconciliation.ReconcileRoleOptions{Role: owner, Client: modifier, Confirm: true}).Run()
			return err
		})
	}
	binding := func(wanted reconciliation.RoleBinding, modifier reconciliation.RoleBindingModifier) {
		steps = append(steps, func() error {
			_, err := (&reconciliation.ReconcileRoleBindingOptions{RoleBinding: wanted, Client: modifier, Confirm: true}).Run()
			return err
		})
	}
	rbac, namespaces := client.RbacV1(), client.CoreV1().Namespaces()
	for _, one := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		role(reconciliation.ClusterRoleRuleOwner{ClusterRole: &one}, reconciliation.ClusterRoleModifier{Client: rbac.ClusterRoles()})
	}
	for _, one := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		binding(reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &one},
			reconciliation.ClusterRoleBindingClientAdapter{Client: rbac.ClusterRoleBindings()})
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		for _, one := range roles {
			role(reconciliation.RoleRuleOwner{Role: &one}, reconciliation.RoleModifier{Client: rbac, NamespaceClient: namespaces})
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, one := range bindings {
			binding(reconciliation.RoleBindingAdapter{RoleBinding: &one}, reconciliation.RoleBindingClientAdapter{Client: rbac, NamespaceClient: namespaces})
		}
	}
	return steps
}
