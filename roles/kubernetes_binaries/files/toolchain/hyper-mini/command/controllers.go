// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	apiserviceaccount "k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	quota "k8s.io/apiserver/pkg/quota/v1"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/certificates/approver"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// How often the garbage collector and quota look for new kinds of resources. kube-controller-manager asks every 30 s, over the network.
	discoveryPeriod = 5 * time.Second
	resyncPeriod    = 12 * time.Hour
	namespaceResync = 5 * time.Minute
	quotaResync     = 5 * time.Minute
	signedLifetime  = 365 * 24 * time.Hour
)

// startFunc makes a controller from its parts. The function it returns runs the controller until the context ends.
type startFunc func(ctx context.Context, p *controllerParts) (func(context.Context), error)

// kind is one controller that can be chosen. needs are the resources it watches or writes, and files the flags it cannot work without.
type kind struct {
	alias string // of kube-controller-manager, where it has one
	needs []string
	files func(o *controllerOptions) map[string]string
	start startFunc
}

const (
	csrResource    = "certificatesigningrequests.certificates.k8s.io"
	policyResource = "validatingadmissionpolicies.admissionregistration.k8s.io"
)

var controllerKinds = map[string]kind{
	names.GarbageCollectorController: {alias: "garbagecollector", start: startGarbageCollector},
	names.NamespaceController:        {alias: "namespace", needs: []string{"namespaces"}, start: startNamespace},
	names.ServiceAccountController: {
		alias: "serviceaccount", needs: []string{"namespaces", "serviceaccounts"}, start: startServiceAccount,
	},
	names.ServiceAccountTokenController: {
		alias: "serviceaccount-token", needs: []string{"secrets", "serviceaccounts"}, start: startServiceAccountToken,
		files: func(o *controllerOptions) map[string]string {
			return map[string]string{"service-account-private-key-file": o.serviceAccountKeyFile, "root-ca-file": o.rootCAFile}
		},
	},
	names.ResourceQuotaController: {alias: "resourcequota", needs: []string{"resourcequotas"}, start: startResourceQuota},
	names.ClusterRoleAggregationController: {
		alias: "clusterrole-aggregation", needs: []string{"clusterroles.rbac.authorization.k8s.io"}, start: startClusterRoleAggregation,
	},
	names.CertificateSigningRequestApprovingController: {
		alias: "csrapproving", needs: []string{csrResource, "subjectaccessreviews.authorization.k8s.io"}, start: startApproving,
	},
	names.CertificateSigningRequestSigningController: {
		alias: "csrsigning", needs: []string{csrResource}, start: startSigning,
		files: func(o *controllerOptions) map[string]string {
			return map[string]string{"cluster-signing-cert-file": o.signingCertFile, "cluster-signing-key-file": o.signingKeyFile}
		},
	},
	names.CertificateSigningRequestCleanerController: {alias: "csrcleaner", needs: []string{csrResource}, start: startCleaner},
	names.RootCACertificatePublisherController: {
		alias: "root-ca-cert-publisher", needs: []string{"configmaps", "namespaces"}, start: startRootCAPublisher,
		files: func(o *controllerOptions) map[string]string { return map[string]string{"root-ca-file": o.rootCAFile} },
	},
	names.ValidatingAdmissionPolicyStatusController: {needs: []string{policyResource}, start: startPolicyStatus},
}

// controllerOptions are flags with the names and meanings of kube-controller-manager.
type controllerOptions struct {
	names                                                              []string
	rootCAFile, signingCertFile, signingKeyFile, serviceAccountKeyFile string
}

func (o *controllerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.names, "controllers", o.names, "Controllers to run: names, * for all that can work with what is served, -NAME to leave one out. Known: "+strings.Join(knownControllers(), ", "))
	flags.StringVar(&o.rootCAFile, "root-ca-file", "", "CA certificate that is put into kube-root-ca.crt and into tokens' secrets.")
	flags.StringVar(&o.signingCertFile, "cluster-signing-cert-file", "", "CA certificate that signs CertificateSigningRequests.")
	flags.StringVar(&o.signingKeyFile, "cluster-signing-key-file", "", "Key of --cluster-signing-cert-file.")
	flags.StringVar(&o.serviceAccountKeyFile, "service-account-private-key-file", "", "Key that signs the tokens of secrets of type kubernetes.io/service-account-token.")
}

func knownControllers() []string {
	var found []string
	for name := range controllerKinds {
		found = append(found, name)
	}
	slices.Sort(found)
	return found
}

// choose returns the controllers to run, sorted. One that is named has to be able to work; * takes those that are.
func (o *controllerOptions) choose(served resourceSet) ([]string, []error) {
	var errs []error
	all, named, without := false, map[string]bool{}, map[string]bool{}
	for _, word := range o.names {
		name, minus := strings.CutPrefix(strings.TrimSpace(word), "-")
		switch found := fullName(name); {
		case word == "*":
			all = true
		case found == "":
			errs = append(errs, fmt.Errorf("--controllers: %s is not a controller of a generic control plane, which are %s", name, strings.Join(knownControllers(), ", ")))
		case minus:
			without[found] = true
		default:
			named[found] = true
		}
	}
	var chosen []string
	for _, name := range knownControllers() {
		why := o.obstacle(controllerKinds[name], served)
		switch {
		case without[name]:
		case named[name] && why != "":
			errs = append(errs, fmt.Errorf("--controllers=%s: %s", name, why))
		case named[name] || all && why == "":
			chosen = append(chosen, name)
		}
	}
	return chosen, errs
}

// obstacle says what a controller lacks; empty when nothing.
func (o *controllerOptions) obstacle(k kind, served resourceSet) string {
	if lacking := missing(k.needs, served); len(lacking) > 0 {
		return "it needs " + strings.Join(lacking, ", ") + ", which is not served: add it to --resources or leave the controller out"
	}
	if k.files != nil {
		var lacking []string
		for flag, path := range k.files(o) {
			if path == "" {
				lacking = append(lacking, "--"+flag)
			}
		}
		if len(lacking) > 0 {
			slices.Sort(lacking)
			return "it needs " + strings.Join(lacking, " and ")
		}
	}
	return ""
}

// fullName takes a name or an alias; empty for others.
func fullName(name string) string {
	if _, known := controllerKinds[name]; known {
		return name
	}
	for full, k := range controllerKinds {
		if k.alias != "" && k.alias == name {
			return full
		}
	}
	return ""
}

// controllerParts are what controllers are made of. The informers are those of the API server in the same process, so that each resource is
// watched and held in memory once.
type controllerParts struct {
	options  *controllerOptions
	config   *rest.Config
	shared   informers.SharedInformerFactory
	metadata metadatainformer.SharedInformerFactory
	factory  informerfactory.InformerFactory
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	started  chan struct{}
}

func newControllerParts(o *controllerOptions, loopback *rest.Config, shared informers.SharedInformerFactory) *controllerParts {
	p := &controllerParts{options: o, config: rest.CopyConfig(loopback), shared: shared, started: make(chan struct{})}
	// One process: a limit between its halves would only make one wait for the other.
	p.config.QPS = -1
	watcher := p.as(user.KubeControllerManager)
	p.metadata = metadatainformer.NewSharedInformerFactoryWithOptions(metadata.NewForConfigOrDie(watcher), resyncPeriod, metadatainformer.WithTransform(stripManagedFields))
	p.factory = informerfactory.NewInformerFactory(shared, p.metadata)
	p.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kubernetes.NewForConfigOrDie(watcher).Discovery()))
	return p
}

// stripManagedFields spares memory: no controller here looks at them.
func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// as is the configuration of one user's client. The loopback client may do everything and is in the audit log as the API server: each
// controller gives that up for the rights of its own role, as kube-controller-manager's do with --use-service-account-credentials.
func (p *controllerParts) as(name string) *rest.Config {
	config := rest.AddUserAgent(rest.CopyConfig(p.config), name)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	return config
}

// account is the configuration of a controller, by the name of its service account. The account itself need not exist for its role to hold.
func (p *controllerParts) account(name string) *rest.Config {
	return p.as(apiserviceaccount.MakeUsername(metav1.NamespaceSystem, name))
}

// client and metadataClient cannot fail: the server itself made clients of this configuration before.
func (p *controllerParts) client(account string) *kubernetes.Clientset {
	return kubernetes.NewForConfigOrDie(p.account(account))
}

func (p *controllerParts) metadataClient(account string) metadata.Interface {
	return metadata.NewForConfigOrDie(p.account(account))
}

// admitted waits until the API server knows of the roles, which it watches: a controller that looks too early would end the process.
func (p *controllerParts) admitted(ctx context.Context) error {
	client := p.client("namespace-controller").Discovery()
	return utilwait.PollUntilContextTimeout(ctx, rolesWatched, rolesTimeout, true, func(context.Context) (bool, error) {
		_, err := client.ServerGroups()
		return err == nil, nil
	})
}

// run makes the named controllers, starts them and returns. The group is done when they have ended.
func (p *controllerParts) run(ctx context.Context, chosen []string) (*sync.WaitGroup, error) {
	var loops []func(context.Context)
	for _, name := range chosen {
		loop, err := controllerKinds[name].start(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		loops = append(loops, loop)
	}
	p.shared.Start(ctx.Done())
	p.metadata.Start(ctx.Done())
	close(p.started)
	var group sync.WaitGroup
	for _, loop := range loops {
		group.Add(1)
		go func() { defer group.Done(); loop(ctx) }()
	}
	klog.InfoS("controllers are started", "names", chosen)
	return &group, nil
}

// both runs two functions until both have ended.
func both(first, second func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		var group sync.WaitGroup
		group.Add(1)
		go func() { defer group.Done(); second(ctx) }()
		first(ctx)
		group.Wait()
	}
}

// workers turns the Run method that most controllers have into a loop.
func workers(run func(context.Context, int), count int) func(context.Context) {
	return func(ctx context.Context) { run(ctx, count) }
}

func startGarbageCollector(ctx context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("generic-garbage-collector")
	metadataClient := p.metadataClient("generic-garbage-collector")
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, p.mapper, garbagecollector.DefaultIgnoredResources(), p.factory, p.started)
	if err != nil {
		return nil, err
	}
	return both(
		func(ctx context.Context) { collector.Run(ctx, 5, 30*time.Second) },
		func(ctx context.Context) { collector.Sync(ctx, client.Discovery(), discoveryPeriod) },
	), nil
}

func startNamespace(ctx context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("namespace-controller")
	metadataClient := p.metadataClient("namespace-controller")
	c := namespace.NewNamespaceController(ctx, client, metadataClient, client.Discovery().ServerPreferredNamespacedResources,
		p.shared.Core().V1().Namespaces(), namespaceResync, corev1.FinalizerKubernetes)
	return workers(c.Run, 5), nil
}

func startServiceAccount(ctx context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("service-account-controller")
	core := p.shared.Core().V1()
	c, err := serviceaccountcontroller.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), client,
		serviceaccountcontroller.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return workers(c.Run, 1), nil
}

func startServiceAccountToken(ctx context.Context, p *controllerParts) (func(context.Context), error) {
	// The one controller that has no role of its own: in kube-controller-manager too it works with the rights of the whole.
	client := kubernetes.NewForConfigOrDie(p.as(user.KubeControllerManager))
	key, err := keyutil.PrivateKeyFromFile(p.options.serviceAccountKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--service-account-private-key-file: %w", err)
	}
	rootCA, err := readCA(p.options.rootCAFile)
	if err != nil {
		return nil, err
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := p.shared.Core().V1()
	c, err := serviceaccountcontroller.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), client,
		serviceaccountcontroller.TokensControllerOptions{TokenGenerator: generator, RootCA: rootCA})
	if err != nil {
		return nil, err
	}
	return workers(c.Run, 2), nil
}

// startResourceQuota counts objects. What kube-controller-manager knows beyond that is about pods, services and volume claims, whose
// informers would never sync here.
func startResourceQuota(ctx context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("resourcequota-controller")
	discover := client.Discovery().ServerPreferredNamespacedResources
	lister := quotageneric.ListerFuncForResourceFunc(p.shared.ForResource)
	var evaluators []quota.Evaluator
	for resource, alias := range map[string]corev1.ResourceName{
		"configmaps": corev1.ResourceConfigMaps, "secrets": corev1.ResourceSecrets, "resourcequotas": corev1.ResourceQuotas,
	} {
		counted := corev1.SchemeGroupVersion.WithResource(resource)
		evaluators = append(evaluators, quotageneric.NewObjectCountEvaluator(counted.GroupResource(), quotageneric.ListResourceUsingListerFunc(lister, counted), alias))
	}
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     p.shared.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(quotaResync),
		InformerFactory:           p.factory,
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resyncPeriod),
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      quotainstall.DefaultIgnoredResources,
		InformersStarted:          p.started,
		Registry:                  quotageneric.NewRegistry(evaluators),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return both(workers(c.Run, 5), func(ctx context.Context) { c.Sync(ctx, discover, discoveryPeriod) }), nil
}

func startClusterRoleAggregation(_ context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("clusterrole-aggregation-controller")
	return workers(clusterroleaggregation.NewClusterRoleAggregation(p.shared.Rbac().V1().ClusterRoles(), client.RbacV1()).Run, 2), nil
}

func startApproving(ctx context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("certificate-controller")
	return workers(approver.NewCSRApprovingController(ctx, client, p.shared.Certificates().V1().CertificateSigningRequests()).Run, 2), nil
}

func startSigning(ctx context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("certificate-controller")
	requests := p.shared.Certificates().V1().CertificateSigningRequests()
	certificate, key := p.options.signingCertFile, p.options.signingKeyFile
	// All signers that kube-controller-manager has, since --cluster-signing-* means all of them there too.
	loop := func(context.Context) {}
	makers := []func() (*signer.CSRSigningController, error){
		func() (*signer.CSRSigningController, error) {
			return signer.NewKubeAPIServerClientCSRSigningController(ctx, client, requests, certificate, key, signedLifetime)
		},
		func() (*signer.CSRSigningController, error) {
			return signer.NewKubeletClientCSRSigningController(ctx, client, requests, certificate, key, signedLifetime)
		},
		func() (*signer.CSRSigningController, error) {
			return signer.NewKubeletServingCSRSigningController(ctx, client, requests, certificate, key, signedLifetime)
		},
		func() (*signer.CSRSigningController, error) {
			return signer.NewLegacyUnknownCSRSigningController(ctx, client, requests, certificate, key, signedLifetime)
		},
	}
	for _, make := range makers {
		one, err := make()
		if err != nil {
			return nil, fmt.Errorf("--cluster-signing-cert-file, --cluster-signing-key-file: %w", err)
		}
		loop = both(loop, workers(one.Run, 1))
	}
	return loop, nil
}

func startCleaner(_ context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("certificate-controller")
	requests := p.shared.Certificates().V1().CertificateSigningRequests()
	return workers(cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), requests).Run, 1), nil
}

func startRootCAPublisher(_ context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client("root-ca-cert-publisher")
	rootCA, err := readCA(p.options.rootCAFile)
	if err != nil {
		return nil, err
	}
	core := p.shared.Core().V1()
	c, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, rootCA)
	if err != nil {
		return nil, err
	}
	return workers(c.Run, 1), nil
}

func startPolicyStatus(_ context.Context, p *controllerParts) (func(context.Context), error) {
	client := p.client(names.ValidatingAdmissionPolicyStatusController)
	checker := &validatingpolicy.TypeChecker{
		SchemaResolver: resolver.NewDefinitionsSchemaResolver(openAPIDefinitions, clientscheme.Scheme, apiextensionsscheme.Scheme).
			Combine(&resolver.ClientDiscoveryResolver{Discovery: client.Discovery()}),
		RestMapper: p.mapper,
	}
	admission := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	c, err := validatingadmissionpolicystatus.NewController(p.shared.Admissionregistration().V1().ValidatingAdmissionPolicies(), admission, checker)
	if err != nil {
		return nil, err
	}
	return workers(c.Run, 1), nil
}

func readCA(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		_, err = cert.ParseCertsPEM(data)
	}
	if err != nil {
		return nil, fmt.Errorf("--root-ca-file: %w", err)
	}
	return data, nil
}
