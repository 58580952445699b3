// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	serverstorage "k8s.io/apiserver/pkg/server/storage"
)

func of(names ...string) resourceSet {
	found := resourceSet{}
	for _, name := range names {
		found.Insert(parseResource(name))
	}
	return found
}

func text(errs []error) string {
	if joined := errors.Join(errs...); joined != nil {
		return joined.Error()
	}
	return ""
}

// natives are the resources that this version serves by default.
func natives(t *testing.T) resourceSet {
	t.Helper()
	known, err := offered()
	if err != nil {
		t.Fatal(err)
	}
	found, err := served(defaultResources(known))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTheDefaultResourcesAreThoseOfAGenericControlPlane(t *testing.T) {
	found := natives(t)
	for _, name := range []string{
		"configmaps", "events", "namespaces", "resourcequotas", "secrets", "serviceaccounts", "leases.coordination.k8s.io",
		"events.events.k8s.io", "tokenreviews.authentication.k8s.io", csrResource, policyResource,
	} {
		if !found.Has(parseResource(name)) {
			t.Errorf("%s is not served", name)
		}
	}
	if lacking := missing(append(slices.Concat(rbacNeeds, fairnessNeeds), alwaysNeeds...), found); lacking != nil {
		t.Errorf("not served: %v", lacking)
	}
	if found.Has(parseResource("pods")) {
		t.Error("pods are served")
	}
}

func TestExactlyTheNamedResourcesAreServed(t *testing.T) {
	known, err := offered()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"namespaces", "secrets", "leases.coordination.k8s.io", "apiservices.apiregistration.k8s.io"}
	config, errs := selectResources(names, known, defaultResources(known))
	if len(errs) > 0 {
		t.Fatal(text(errs))
	}
	found, err := served(config)
	if err != nil {
		t.Fatal(err)
	}
	if want := of(names[:3]...); !found.Equal(want) {
		t.Errorf("found %v", found.UnsortedList())
	}
}

func TestAResourceOffByDefaultIsServedInItsMostStableVersion(t *testing.T) {
	known, err := offered()
	if err != nil {
		t.Fatal(err)
	}
	name := "leasecandidates.coordination.k8s.io"
	config, errs := selectResources([]string{name}, known, defaultResources(known))
	if len(errs) > 0 {
		t.Fatal(text(errs))
	}
	versions := versionsOf(parseResource(name), known)
	if versions[0].Version != "v1beta1" || !config.ResourceEnabled(versions[0]) || config.ResourceEnabled(versions[len(versions)-1]) {
		t.Errorf("of %v", versions)
	}
}

func TestAnUnknownResourceIsRefused(t *testing.T) {
	known, err := offered()
	if err != nil {
		t.Fatal(err)
	}
	_, errs := selectResources([]string{"pods", "namespaces"}, known, defaultResources(known))
	if told := text(errs); !strings.Contains(told, "pods is not a native resource") || strings.Contains(told, "namespaces") {
		t.Error(told)
	}
}

func TestWhatCannotBecomeReadyIsRefused(t *testing.T) {
	for _, test := range []struct {
		wishes wishes
		served resourceSet
		says   string
	}{
		{wishes{rbac: true}, of("namespaces"), "--authorization-mode=RBAC needs clusterrolebindings"},
		{wishes{}, of("secrets"), "a control plane needs namespaces"},
		{wishes{node: true}, of("namespaces"), "--authorization-mode=Node needs nodes and pods"},
		{wishes{bootstrapTokens: true}, of("namespaces"), "--enable-bootstrap-token-auth needs secrets"},
		{wishes{fairness: true}, of("namespaces"), "--enable-priority-and-fairness needs flowschemas"},
		{wishes{plugins: []string{"ResourceQuota"}}, of("namespaces"), "--enable-admission-plugins=ResourceQuota needs resourcequotas"},
		{wishes{plugins: []string{"LimitRanger"}}, of("namespaces"), "LimitRanger: it is about resources that a generic control plane does not have"},
		{wishes{resources: []string{crdResource.String()}}, of("namespaces"), "which --crds=false takes away"},
		{wishes{resources: []string{apiServiceResource.String()}}, of("namespaces"), "which --aggregation=false takes away"},
		{wishes{resources: []string{"leasecandidates.coordination.k8s.io"}}, of("namespaces"), "only with a feature gate"},
	} {
		if told := text(test.wishes.problems(test.served)); !strings.Contains(told, test.says) {
			t.Errorf("%+v: %q does not say %q", test.wishes, told, test.says)
		}
	}
	good := wishes{rbac: true, fairness: true, bootstrapTokens: true, crds: true, resources: []string{crdResource.String(), "namespaces"}}
	if told := text(good.problems(natives(t))); told != "" {
		t.Error(told)
	}
}

func TestDefaultsThatCannotWorkAreLeftOut(t *testing.T) {
	found := impossible(pluginNeeds, of("namespaces", "serviceaccounts"))
	for _, name := range []string{"ResourceQuota", "ValidatingAdmissionPolicy", "CertificateSigning"} {
		if !slices.Contains(found, name) {
			t.Errorf("%s is left in", name)
		}
	}
	for _, name := range []string{"NamespaceLifecycle", "ServiceAccount"} {
		if slices.Contains(found, name) {
			t.Errorf("%s is left out", name)
		}
	}
	if hooks := impossible(hookNeeds, of("configmaps")); slices.Contains(hooks, "start-cluster-authentication-info-controller") {
		t.Error(hooks)
	}
}

func TestControllersAreChosenByWhatIsServed(t *testing.T) {
	files := controllerOptions{rootCAFile: "ca", signingCertFile: "ca", signingKeyFile: "key", serviceAccountKeyFile: "sa"}
	all := natives(t)
	for _, test := range []struct {
		names  []string
		served resourceSet
		files  controllerOptions
		want   []string
		says   string
	}{
		{[]string{"*"}, all, files, knownControllers(), ""},
		{[]string{"*"}, of("namespaces"), files, []string{"garbage-collector-controller", "namespace-controller"}, ""},
		{nil, all, files, nil, ""},
		{[]string{"*", "-garbagecollector"}, of("namespaces"), files, []string{"namespace-controller"}, ""},
		{[]string{"garbagecollector", "namespace-controller"}, all, files, []string{"garbage-collector-controller", "namespace-controller"}, ""},
		{[]string{"resourcequota-controller"}, of("namespaces"), files, nil, "it needs resourcequotas, which is not served"},
		{[]string{"csrsigning"}, all, controllerOptions{}, nil, "it needs --cluster-signing-cert-file and --cluster-signing-key-file"},
		{[]string{"deployment"}, all, files, nil, "deployment is not a controller of a generic control plane"},
	} {
		test.files.names = test.names
		found, errs := test.files.choose(test.served)
		if told := text(errs); !slices.Equal(found, test.want) || !strings.Contains(told, test.says) || (told == "") != (test.says == "") {
			t.Errorf("%v: %v, %q", test.names, found, told)
		}
	}
}

func TestTheEmbeddedEtcdIsWholeOrNotThere(t *testing.T) {
	whole := etcdOptions{dataDir: "/var/lib/x", clientURL: "https://127.0.0.1:2379", certFile: "a", keyFile: "b", trustedCAFile: "c"}
	for _, test := range []struct {
		change func(*etcdOptions)
		says   string
	}{
		{func(*etcdOptions) {}, ""},
		{func(o *etcdOptions) { *o = etcdOptions{} }, ""},
		{func(o *etcdOptions) { *o = etcdOptions{dataDir: "/var/lib/x"} }, ""},
		{func(o *etcdOptions) { o.dataDir = "x" }, "is not absolute"},
		{func(o *etcdOptions) { o.dataDir = "" }, "they need --etcd-data-dir"},
		{func(o *etcdOptions) { o.keyFile = "" }, "--etcd-key-file and --etcd-listen-client-url go together"},
		{func(o *etcdOptions) { o.clientURL = "http://127.0.0.1:2379" }, "is not of the form"},
		{func(o *etcdOptions) { o.dataDir = "/" + strings.Repeat("x", 110) }, "too long for a socket"},
	} {
		options := whole
		test.change(&options)
		if told := text(options.validate()); !strings.Contains(told, test.says) || (told == "") != (test.says == "") {
			t.Errorf("%+v: %q", options, told)
		}
	}
}

func TestADataDirectoryInUseIsRefused(t *testing.T) {
	options := etcdOptions{dataDir: filepath.Join(t.TempDir(), "etcd")}
	stop, _, err := options.start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, _, err := options.start(context.Background()); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Error(err)
	}
}

func TestFailingChecksAreTold(t *testing.T) {
	answer := "[+]ping ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n"
	if found := failing(answer); len(found) != 1 || !strings.HasPrefix(found[0], "[-]informer-sync") {
		t.Error(found)
	}
	if found := failing("refused"); found[0] != "refused" {
		t.Error(found)
	}
}

var _ serverstorage.APIResourceConfigSource = &recorder{}
