// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	openapicontroller "k8s.io/kube-aggregator/pkg/controllers/openapi"
	openapimerger "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3controller "k8s.io/kube-aggregator/pkg/controllers/openapiv3"
	openapiv3merger "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
)

// Without the aggregator nobody puts together what two servers of the chain say of themselves: the list of groups and the OpenAPI documents.
// Where custom resources are served without it, the native server does.

// mergeDocuments prepares a server whose own OpenAPI documents are left out (SkipOpenAPIInstallation), and serves them together with those
// of the servers behind it.
func mergeDocuments(server *genericapiserver.GenericAPIServer, config *genericapiserver.Config) (func() error, error) {
	var v2 *openapicontroller.AggregationController
	var v3 *openapiv3controller.AggregationController
	err := server.AddPostStartHook("merge-openapi", func(hook genericapiserver.PostStartHookContext) error {
		go v2.Run(hook.Done())
		go v3.Run(hook.Done())
		return nil
	})
	// After the servers behind are prepared: only then they have documents.
	return func() error {
		container, mux, behind := server.Handler.GoRestfulContainer, server.Handler.NonGoRestfulMux, server.NextDelegate()
		downloader := openapimerger.NewDownloader()
		merged, err := openapimerger.BuildAndRegisterAggregator(&downloader, behind, container.RegisteredWebServices(), config.OpenAPIConfig, mux)
		if err != nil {
			return err
		}
		v2 = openapicontroller.NewAggregationController(&downloader, merged)
		proxied, err := openapiv3merger.BuildAndRegisterAggregator(openapiv3merger.NewDownloader(), behind, container, config.OpenAPIV3Config, mux)
		v3 = openapiv3controller.NewAggregationController(proxied)
		return err
	}, err
}

// listCustomGroups keeps the groups of custom resources in the list of a server's groups, /apis. A group that the server has itself stays its own.
func listCustomGroups(server *genericapiserver.GenericAPIServer, native resourceSet, crds apiextensionsinformers.CustomResourceDefinitionInformer) error {
	server.DiscoveryGroupManager.AddGroup(apiGroup(apiextensionsv1.GroupName, sets.New("v1")))
	listed := sets.New[string]()
	update := func(any) { // one at a time: the informer calls a handler so
		found := customGroups(crds.Lister())
		for resource := range native {
			delete(found, resource.Group)
		}
		for name := range listed.Difference(sets.KeySet(found)) {
			server.DiscoveryGroupManager.RemoveGroup(name)
		}
		for name, versions := range found {
			server.DiscoveryGroupManager.AddGroup(apiGroup(name, versions))
		}
		listed = sets.KeySet(found)
	}
	_, err := crds.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: update, UpdateFunc: func(_, after any) { update(after) }, DeleteFunc: update,
	})
	return err
}

// customGroups returns the served versions of each group of established custom resources.
func customGroups(crds apiextensionslisters.CustomResourceDefinitionLister) map[string]sets.Set[string] {
	found := map[string]sets.Set[string]{}
	all, _ := crds.List(labels.Everything()) // from memory, which cannot fail
	for _, crd := range all {
		if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			continue
		}
		for _, version := range crd.Spec.Versions {
			if version.Served {
				if found[crd.Spec.Group] == nil {
					found[crd.Spec.Group] = sets.New[string]()
				}
				found[crd.Spec.Group].Insert(version.Name)
			}
		}
	}
	return found
}

// apiGroup lists versions from the most stable one, which is preferred.
func apiGroup(name string, versions sets.Set[string]) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	for _, one := range versions.UnsortedList() {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + one, Version: one})
	}
	slices.SortFunc(group.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
		return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	group.PreferredVersion = group.Versions[0]
	return group
}
