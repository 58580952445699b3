// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	genericapiserver "k8s.io/apiserver/pkg/server"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	availabilitymetrics "k8s.io/kube-aggregator/pkg/controllers/status/metrics"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
)

const (
	availabilityWorkers = 5 // as upstream
	lookupTimeout       = 5 * time.Second
)

// keepAvailability keeps the condition Available of each APIService that names a Service, by kube-aggregator's own controller. It reads
// Services, which are not served here: a Service is there when its name, SERVICE.NAMESPACE.svc, resolves, since requests go to that name.
// With an egress selector this server does not dial names, and the agent that it leads to keeps the conditions.
func (c *chain) keepAvailability(p *plan, aggregator *aggregatorapiserver.APIAggregator, resolver aggregatorapiserver.ServiceResolver) error {
	if c.config.Generic.EgressSelector != nil {
		return nil
	}
	client, err := apiregistrationclient.NewForConfig(c.config.Generic.LoopbackClientConfig)
	if err != nil {
		return err
	}
	var dial *transport.DialHolder
	if c.config.ProxyTransport != nil && c.config.ProxyTransport.DialContext != nil {
		dial = &transport.DialHolder{Dial: c.config.ProxyTransport.DialContext}
	}
	certificate := func() ([]byte, []byte) {
		return credential(p.apiServer.ProxyClientCertFile), credential(p.apiServer.ProxyClientKeyFile)
	}
	controller, err := remote.New(aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices(), services{}, endpointSlices{},
		client, dial, certificate, resolver, availabilitymetrics.New())
	if err != nil {
		return err
	}
	return aggregator.GenericAPIServer.AddPostStartHook("apiservice-status-remote-available-controller", func(hook genericapiserver.PostStartHookContext) error {
		go controller.Run(availabilityWorkers, hook.Done())
		return nil
	})
}

// credential reads the file each time, so that a renewed one is used.
func credential(path string) []byte {
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		klog.ErrorS(err, "cannot read the client certificate for extension API servers")
	}
	return data
}

// services are those whose names resolve.
type services struct{}

func (services) Informer() cache.SharedIndexInformer             { return newEmptyInformer() }
func (s services) Lister() corelisters.ServiceLister             { return s }
func (services) List(labels.Selector) ([]*corev1.Service, error) { return nil, nil }

func (services) Services(namespace string) corelisters.ServiceNamespaceLister {
	return servicesOf{namespace}
}

type servicesOf struct{ namespace string }

func (servicesOf) List(labels.Selector) ([]*corev1.Service, error) { return nil, nil }

// Get returns a Service of a type that has neither ports nor endpoints to look at, so that the server itself is asked.
func (s servicesOf) Get(name string) (*corev1.Service, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	var unresolved *net.DNSError
	if _, err := net.DefaultResolver.LookupHost(ctx, name+"."+s.namespace+".svc"); errors.As(err, &unresolved) && unresolved.IsNotFound {
		return nil, apierrors.NewNotFound(corev1.Resource("services"), name)
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName},
	}, nil
}

// endpointSlices are none.
type endpointSlices struct{}

func (endpointSlices) Informer() cache.SharedIndexInformer { return newEmptyInformer() }

func (endpointSlices) Lister() discoverylisters.EndpointSliceLister {
	return discoverylisters.NewEndpointSliceLister(newEmptyIndexer())
}

// emptyInformer is that of a resource that is not served: it has synced, and there are no events. What the controller does not call is nil.
type emptyInformer struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
}

func newEmptyInformer() cache.SharedIndexInformer { return emptyInformer{indexer: newEmptyIndexer()} }

func newEmptyIndexer() cache.Indexer {
	return cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
}

func (i emptyInformer) GetIndexer() cache.Indexer { return i.indexer }

func (emptyInformer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return synced{}, nil
}

// synced is the registration of a handler that has nothing to wait for.
type synced struct {
	cache.ResourceEventHandlerRegistration
}

func (synced) HasSynced() bool { return true }
