// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// The resources of the two other servers of the chain; --crds and --aggregation switch them.
var (
	crdResource        = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	apiServiceResource = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
)

// parseResource reads "configmaps" or "leases.coordination.k8s.io".
func parseResource(name string) schema.GroupResource {
	return schema.ParseGroupResource(strings.TrimSpace(name))
}

// offered asks the storage providers of this version which resources they know, in all versions of all groups. It is the source of
// what --resources may name: a table would have to be kept for each version of Kubernetes.
func offered() ([]schema.GroupVersionResource, error) {
	asked := &recorder{}
	if _, err := tryProviders(asked); err != nil {
		return nil, err
	}
	return asked.resources, nil
}

// defaultResources are all stable versions, as in the API server of the sample, without what belongs to moving stored objects.
func defaultResources(known []schema.GroupVersionResource) *serverstorage.ResourceConfig {
	config := serverstorage.NewResourceConfig()
	for _, resource := range known {
		stable := !strings.ContainsAny(strings.TrimPrefix(resource.Version, "v"), "abcdefghijklmnopqrstuvwxyz")
		if stable && resource.Group != "storagemigration.k8s.io" {
			config.EnableVersions(resource.GroupVersion())
		}
	}
	return config
}

// selectResources returns which versions of which resources are on, for exactly the resources named: every version that is on by
// default, or else the most stable one. Nothing named is the default set.
func selectResources(named []string, known []schema.GroupVersionResource, defaults *serverstorage.ResourceConfig) (*serverstorage.ResourceConfig, []error) {
	if len(named) == 0 {
		return defaults, nil
	}
	wanted := sets.New[schema.GroupResource]()
	for _, name := range named {
		wanted.Insert(parseResource(name))
	}
	var errs []error
	for resource := range wanted {
		versions := versionsOf(resource, known)
		if len(versions) == 0 {
			if resource != crdResource && resource != apiServiceResource {
				errs = append(errs, fmt.Errorf("--resources: %s is not a native resource of this version; --list names them", resource))
			}
			continue
		}
		if !slices.ContainsFunc(versions, defaults.ResourceEnabled) {
			defaults.EnableResources(versions[0])
		}
	}
	for _, resource := range known {
		if !wanted.Has(resource.GroupResource()) {
			defaults.DisableResources(resource)
		}
	}
	return defaults, errs
}

// versionsOf returns the known versions of a resource, the most stable first.
func versionsOf(resource schema.GroupResource, known []schema.GroupVersionResource) []schema.GroupVersionResource {
	var found []schema.GroupVersionResource
	for _, one := range known {
		if one.GroupResource() == resource && !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b schema.GroupVersionResource) int {
		return apimachineryversion.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	return found
}

// served returns the native resources that a server with this configuration has. Beside the configuration, feature gates decide it, which
// only the providers know.
func served(config serverstorage.APIResourceConfigSource) (sets.Set[schema.GroupResource], error) {
	groups, err := tryProviders(config)
	if err != nil {
		return nil, err
	}
	found := sets.New[schema.GroupResource]()
	for group, info := range groups {
		for _, resources := range info.VersionedResourcesStorageMap {
			for resource := range resources {
				if !strings.Contains(resource, "/") { // a subresource comes along with its resource
					found.Insert(schema.GroupResource{Group: group, Resource: resource})
				}
			}
		}
	}
	return found, nil
}

// tryProviders runs the storage providers of the generic control plane without any storage behind them.
func tryProviders(config serverstorage.APIResourceConfigSource) (map[string]genericapiserver.APIGroupInfo, error) {
	bare := genericapiserver.NewConfig(legacyscheme.Codecs)
	bare.ExternalAddress = "localhost:443" // only so that Complete derives nothing
	bare.EffectiveVersion = effectiveVersion()
	bare.Authorization.Authorizer = authorizerfactory.NewAlwaysDenyAuthorizer() // some providers insist on one
	complete := (&controlplaneapiserver.Config{Generic: bare}).Complete()
	providers, err := complete.GenericStorageProviders(nil)
	if err != nil {
		return nil, err
	}
	groups := map[string]genericapiserver.APIGroupInfo{}
	for _, provider := range providers {
		info, err := provider.NewRESTStorage(config, noStorage{})
		if err != nil {
			return nil, fmt.Errorf("asking for the resources of group %q: %w", provider.GroupName(), err)
		}
		groups[provider.GroupName()] = info
	}
	return groups, nil
}

// recorder notes which resources a provider asks for, and lets it build none.
type recorder struct {
	serverstorage.ResourceConfig
	resources []schema.GroupVersionResource
}

func (r *recorder) ResourceEnabled(resource schema.GroupVersionResource) bool {
	r.resources = append(r.resources, resource)
	return false
}

func (r *recorder) AnyResourceForGroupEnabled(string) bool { return true }

// noStorage gives a provider storage that is never used.
type noStorage struct{ storage.Interface }

func (n noStorage) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:  &storagebackend.ConfigForResource{GroupResource: resource},
		ResourcePrefix: resource.Resource,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
			func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return n, func() {}, nil
		},
	}, nil
}

// uncached spares the watch caches of core resources that are not served: the provider of the core group makes their storage all the same.
type uncached struct {
	generic.RESTOptionsGetter
	served sets.Set[schema.GroupResource]
}

func (u uncached) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := u.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil && resource.Group == "" && !u.served.Has(resource) {
		options.Decorator = generic.UndecoratedStorage
	}
	return options, err
}
