// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

//go:build kubernetes_1_36

// What Kubernetes 1.36 has in another form.

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/informers"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
)

func buildGenericConfig(completed options.CompletedOptions, resources *serverstorage.ResourceConfig) (
	*genericapiserver.Config, informers.SharedInformerFactory, *serverstorage.DefaultStorageFactory, error) {
	return controlplaneapiserver.BuildGenericConfig(completed, schemes, resources, openAPIDefinitions)
}

func createConfig(completed options.CompletedOptions, generic *genericapiserver.Config, shared informers.SharedInformerFactory,
	storage *serverstorage.DefaultStorageFactory, resolver aggregatorapiserver.ServiceResolver) (*controlplaneapiserver.Config, []admission.PluginInitializer, error) {
	return controlplaneapiserver.CreateConfig(completed, generic, shared, storage, resolver, nil)
}

func (g tokenGetter) GetServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return g.serviceAccount(namespace, name)
}

func (g tokenGetter) GetSecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return g.secret(namespace, name)
}

func (g tokenGetter) GetPod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return nil, notServed("pods", name)
}

func (g tokenGetter) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	return nil, notServed("nodes", name)
}
