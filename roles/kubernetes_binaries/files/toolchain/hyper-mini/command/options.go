// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/compatibility"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// Flags of the generic API server that mean nothing in one process: --resources says what is served, and there are no peers.
var droppedFlags = []string{
	"runtime-config", "enable-aggregator-routing", "peer-ca-file", "peer-advertise-ip", "peer-advertise-port",
	"coordinated-leadership-lease-duration", "coordinated-leadership-renew-deadline", "coordinated-leadership-retry-period",
}

// flagOptions are the flags, as they were given.
type flagOptions struct {
	apiServer         *options.Options
	etcd              etcdOptions
	crds, aggregation bool
	resources         []string
	controllers       controllerOptions
	list              bool
}

func newFlagOptions() *flagOptions {
	o := &flagOptions{apiServer: options.NewOptions(), crds: true, aggregation: true, controllers: controllerOptions{names: []string{"*"}}}
	// Watches are told to end, so that a stop takes no longer than this; without it the server waits for them until a request's timeout.
	o.apiServer.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = time.Second
	// Safe unless told otherwise: upstream's default lets everybody do everything.
	o.apiServer.Authorization.Modes = []string{"RBAC"}
	return o
}

func (o *flagOptions) addFlags(sets *cliflag.NamedFlagSets) {
	own := sets.FlagSet("hyper-mini")
	own.BoolVar(&o.crds, "crds", o.crds, "Serve custom resources.")
	own.BoolVar(&o.aggregation, "aggregation", o.aggregation, "Serve APIServices and forward to the API servers they name.")
	own.StringSliceVar(&o.resources, "resources", nil, "Exactly the native resources to serve, such as configmaps,leases.coordination.k8s.io; none for all that this version serves by default. --list names them.")
	own.BoolVar(&o.list, "list", false, "Print version, resources and controllers as JSON and end.")
	o.etcd.addFlags(sets.FlagSet("embedded etcd"))
	o.controllers.addFlags(sets.FlagSet("controllers"))
	var upstream cliflag.NamedFlagSets
	o.apiServer.AddFlags(&upstream)
	for _, name := range upstream.Order {
		upstream.FlagSets[name].VisitAll(func(flag *pflag.Flag) {
			if !slices.Contains(droppedFlags, flag.Name) {
				sets.FlagSet(name).AddFlag(flag)
			}
		})
	}
}

// plan is what will run, checked.
type plan struct {
	flags       *flagOptions
	apiServer   options.CompletedOptions
	resources   *serverstorage.ResourceConfig
	served      resourceSet // with those of --crds and --aggregation
	controllers []string
}

// complete turns the flags into a plan, or says everything that is wrong with them. changed tells whether a flag was given.
func (o *flagOptions) complete(ctx context.Context, changed func(string) bool) (*plan, []error) {
	if o.etcd.embedded() {
		if changed("etcd-servers") {
			return nil, []error{errors.New("--etcd-data-dir is the embedded etcd and --etcd-servers another one: give one of them")}
		}
		o.apiServer.Etcd.StorageConfig.Transport.ServerList = []string{"unix://" + o.etcd.socket()}
	}
	// Feature gates, on which the offered resources depend, are set here.
	if err := compatibility.DefaultComponentGlobalsRegistry.Set(); err != nil {
		return nil, []error{err}
	}
	if err := o.apiServer.GenericServerRunOptions.Complete(); err != nil {
		return nil, []error{err}
	}
	known, err := offered()
	if err != nil {
		return nil, []error{err}
	}
	resources, errs := selectResources(o.resources, known, defaultResources(known))
	native, err := served(resources)
	if err != nil || len(errs) > 0 {
		return nil, append(errs, err)
	}
	errs = append(errs, o.wishes(changed).problems(native)...)
	o.adapt(native)

	all := native.Clone()
	if o.crds {
		all.Insert(crdResource)
	}
	if o.aggregation {
		all.Insert(apiServiceResource)
	}
	controllers, moreErrs := o.controllers.choose(all)
	errs = append(append(errs, moreErrs...), o.etcd.validate()...)
	if len(errs) > 0 {
		return nil, errs
	}
	completed, err := o.apiServer.Complete(ctx, nil, nil)
	if err != nil {
		return nil, []error{err}
	}
	return &plan{flags: o, apiServer: completed, resources: resources, served: all, controllers: controllers}, completed.Validate()
}

func (o *flagOptions) wishes(changed func(string) bool) wishes {
	return wishes{
		rbac:            slices.Contains(o.apiServer.Authorization.Modes, "RBAC"),
		node:            slices.Contains(o.apiServer.Authorization.Modes, "Node"),
		bootstrapTokens: o.apiServer.Authentication.BootstrapToken.Enable,
		fairness:        changed("enable-priority-and-fairness") && o.apiServer.Features.EnablePriorityAndFairness,
		plugins:         o.apiServer.Admission.GenericAdmission.EnablePlugins,
		resources:       o.resources,
		crds:            o.crds,
		aggregation:     o.aggregation,
	}
}

// adapt leaves out what is on by default and cannot work with what is served.
func (o *flagOptions) adapt(served resourceSet) {
	off := sets.New(kubeoptions.AllOrderedPlugins...).Difference(defaultOnPlugins())
	off.Insert(impossible(pluginNeeds, served)...)
	o.apiServer.Admission.GenericAdmission.DefaultOffPlugins = off
	if len(missing(fairnessNeeds, served)) > 0 {
		o.apiServer.Features.EnablePriorityAndFairness = false
	}
	o.apiServer.Authentication.ServiceAccounts.OptionalTokenGetter = newTokenGetter(served)
}

// defaultOnPlugins are upstream's defaults of those that can work here.
func defaultOnPlugins() sets.Set[string] {
	return sets.KeySet(pluginNeeds).Difference(kubeoptions.DefaultOffAdmissionPlugins())
}

func joined(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("this cannot be started: %w", errors.Join(errs...))
}
