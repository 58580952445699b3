// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	// The groups of a generic control plane, for the scheme.
	_ "k8s.io/kubernetes/pkg/apis/admission/install"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/imagepolicy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
)

// serverName labels the identity lease. It is that of the separate API server's, so that the lease of either is cleaned up by both.
const serverName = "hyper-mini"

var schemes = []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}

func effectiveVersion() basecompatibility.EffectiveVersion {
	return compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent)
}

// chain is a request's way: the aggregator, the native resources, custom resources, and not found. Each of the first and third may be missing.
type chain struct {
	config  *controlplaneapiserver.Config
	native  *controlplaneapiserver.Server
	run     func(context.Context) error
	handler *genericapiserver.GenericAPIServer // the outermost
	roles   chan struct{}                      // closed when the roles of RBAC are made, where they are served
}

// newChain wires the servers of a plan. Nothing listens yet.
func newChain(p *plan) (*chain, error) {
	generic, shared, storage, err := buildGenericConfig(p.apiServer, p.resources)
	if err != nil {
		return nil, err
	}
	generic.RESTOptionsGetter = uncached{RESTOptionsGetter: generic.RESTOptionsGetter, served: p.served}
	generic.DisabledPostStartHooks.Insert(impossible(hookNeeds, p.served)...)
	resolver := webhook.NewDefaultServiceResolver()
	config, initializers, err := createConfig(p.apiServer, generic, shared, storage, resolver)
	if err != nil {
		return nil, err
	}
	c := &chain{config: config, roles: make(chan struct{})}

	var target genericapiserver.DelegationTarget = genericapiserver.NewEmptyDelegateWithCustomHandler(
		notfoundhandler.New(generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey))
	var crds apiextensionsinformers.CustomResourceDefinitionInformer
	if p.flags.crds {
		server, err := c.newExtensions(p, initializers, resolver, target)
		if err != nil {
			return nil, fmt.Errorf("custom resources: %w", err)
		}
		target, crds = server.GenericAPIServer, server.Informers.Apiextensions().V1().CustomResourceDefinitions()
	}
	merged := p.flags.crds && !p.flags.aggregation
	generic.SkipOpenAPIInstallation = merged
	if err := c.newNative(p, target); err != nil {
		return nil, fmt.Errorf("native resources: %w", err)
	}
	if !p.flags.aggregation {
		return c, c.endAtNative(p, crds, merged)
	}
	aggregator, err := c.newAggregator(p, initializers, resolver, crds)
	if err != nil {
		return nil, fmt.Errorf("aggregation: %w", err)
	}
	c.handler = aggregator.GenericAPIServer
	c.run = func(ctx context.Context) error {
		prepared, err := aggregator.PrepareRun()
		if err != nil {
			return err
		}
		return prepared.Run(ctx)
	}
	return c, nil
}

// endAtNative makes the native server the outermost one.
func (c *chain) endAtNative(p *plan, crds apiextensionsinformers.CustomResourceDefinitionInformer, merged bool) error {
	c.handler = c.native.GenericAPIServer
	finish := func() error { return nil }
	if merged {
		var err error
		if finish, err = mergeDocuments(c.handler, c.config.Generic); err != nil {
			return err
		}
		if err := listCustomGroups(c.handler, p.served, crds); err != nil {
			return err
		}
	}
	c.run = func(ctx context.Context) error {
		prepared := c.handler.PrepareRun()
		if err := finish(); err != nil {
			return err
		}
		return prepared.RunWithContext(ctx)
	}
	return nil
}

func (c *chain) newExtensions(p *plan, initializers []admission.PluginInitializer, resolver webhook.ServiceResolver, next genericapiserver.DelegationTarget) (*apiextensionsapiserver.CustomResourceDefinitions, error) {
	generic := c.config.Generic
	auth := webhook.NewDefaultAuthenticationInfoResolverWrapper(c.config.ProxyTransport, generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider)
	config, err := controlplaneapiserver.CreateAPIExtensionsConfig(*generic, c.config.VersionedInformers, initializers, p.apiServer, 1, resolver, auth)
	if err != nil {
		return nil, err
	}
	return config.Complete().New(next)
}

func (c *chain) newNative(p *plan, next genericapiserver.DelegationTarget) error {
	completed := c.config.Complete()
	var err error
	if c.native, err = completed.New(serverName, next); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config.Generic.LoopbackClientConfig)
	if err != nil {
		return err
	}
	providers, err := completed.GenericStorageProviders(client.Discovery())
	if err != nil {
		return err
	}
	return c.native.InstallAPIs(withPromptRoles(providers, c.roles)...)
}

func (c *chain) newAggregator(p *plan, initializers []admission.PluginInitializer, resolver webhook.ServiceResolver, crds apiextensionsinformers.CustomResourceDefinitionInformer) (*aggregatorapiserver.APIAggregator, error) {
	config, err := controlplaneapiserver.CreateAggregatorConfig(*c.config.Generic, p.apiServer, c.config.VersionedInformers, resolver,
		c.config.ProxyTransport, c.config.Extra.PeerProxy, initializers)
	if err != nil {
		return nil, err
	}
	// It would watch Services and EndpointSlices, which are not served.
	config.ExtraConfig.DisableRemoteAvailableConditionController = true
	aggregator, err := controlplaneapiserver.CreateAggregatorServer(config.Complete(), c.native.GenericAPIServer, crds, p.flags.crds, controlplaneapiserver.DefaultGenericAPIServicePriorities())
	if err != nil {
		return nil, err
	}
	return aggregator, c.keepAvailability(p, aggregator, resolver)
}

const (
	// A plan that cannot become ready was refused before; this is for what nobody thought of, and for an etcd that does not answer.
	readyTimeout = 2 * time.Minute
	readyPeriod  = 100 * time.Millisecond
	// How long requests in flight and controllers may take after SIGTERM. Etcd ends within etcdStopTimeout after that: 10 s together at most.
	stopTimeout = 6 * time.Second
)

// serve runs a plan until the context ends.
func serve(ctx context.Context, p *plan) error {
	stopEtcd, etcdFailed := func() {}, (<-chan error)(nil)
	if p.flags.etcd.embedded() {
		var err error
		if stopEtcd, etcdFailed, err = p.flags.etcd.start(ctx); err != nil {
			return err
		}
	}
	defer stopEtcd()
	c, err := newChain(p)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := c.addControllers(p); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.run(running) }()
	go c.watchReadiness(running, cancel)

	select {
	case err := <-ended:
		return err
	case err := <-etcdFailed:
		cancel(fmt.Errorf("etcd ended: %w", err))
	case <-running.Done():
	}
	select {
	case err = <-ended:
	case <-time.After(stopTimeout):
		klog.InfoS("requests are still running; ending without them")
	}
	if cause := context.Cause(running); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// addControllers starts them as soon as their roles hold.
func (c *chain) addControllers(p *plan) error {
	if len(p.controllers) == 0 {
		return nil
	}
	parts := newControllerParts(&p.flags.controllers, c.config.Generic.LoopbackClientConfig, c.config.VersionedInformers)
	return c.handler.AddPostStartHook("start-controllers", func(hook genericapiserver.PostStartHookContext) error {
		if len(missing([]string{"clusterroles.rbac.authorization.k8s.io"}, p.served)) == 0 {
			select {
			case <-c.roles:
			case <-hook.Done():
				return hook.Err()
			}
		}
		if err := parts.admitted(hook); err != nil {
			return err
		}
		_, err := parts.run(hook, p.controllers)
		return err
	})
}

// watchReadiness says when the server is ready, or ends it with the checks that fail.
func (c *chain) watchReadiness(ctx context.Context, cancel context.CancelCauseFunc) {
	began := time.Now()
	client, err := kubernetes.NewForConfig(c.config.Generic.LoopbackClientConfig)
	if err != nil {
		cancel(err)
		return
	}
	var told string
	err = utilwait.PollUntilContextTimeout(ctx, readyPeriod, readyTimeout, true, func(ctx context.Context) (bool, error) {
		var status int
		body, err := client.RESTClient().Get().AbsPath("/readyz").Param("verbose", "").Do(ctx).StatusCode(&status).Raw()
		if told = string(body); err != nil && told == "" {
			told = err.Error()
		}
		return status == http.StatusOK, nil
	})
	if err == nil {
		klog.InfoS("ready", "seconds", time.Since(began).Seconds())
		settle(ctx)
		return
	}
	if ctx.Err() == nil {
		cancel(fmt.Errorf("not ready after %s: %s", readyTimeout, strings.Join(failing(told), "; ")))
	}
}

// failing returns the lines of an answer of /readyz?verbose that stand for failed checks.
func failing(answer string) []string {
	var found []string
	for _, line := range strings.Split(answer, "\n") {
		if strings.HasPrefix(line, "[-]") {
			found = append(found, line)
		}
	}
	if len(found) == 0 {
		found = []string{answer}
	}
	return found
}
