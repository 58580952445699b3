// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// What waits for ever, or fails for ever, when a resource it watches is not served. An API server with such a part starts and never becomes
// ready; here it is left out where it is only a default, and refused where it was asked for.

// pluginNeeds holds the admission plugins that are on by default, and those that can be switched on, with the resources they watch. All others of
// kube-apiserver are about pods, nodes, volumes and the like.
var pluginNeeds = map[string][]string{
	"NamespaceLifecycle":         {"namespaces"},
	"ServiceAccount":             {"serviceaccounts"},
	"DefaultTolerationSeconds":   nil,
	"MutatingAdmissionWebhook":   {"mutatingwebhookconfigurations.admissionregistration.k8s.io"},
	"ValidatingAdmissionWebhook": {"validatingwebhookconfigurations.admissionregistration.k8s.io"},
	"ValidatingAdmissionPolicy": {
		"validatingadmissionpolicies.admissionregistration.k8s.io", "validatingadmissionpolicybindings.admissionregistration.k8s.io",
	},
	"MutatingAdmissionPolicy": {
		"mutatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
	},
	"ResourceQuota":                        {"resourcequotas"},
	"CertificateApproval":                  {"certificatesigningrequests.certificates.k8s.io"},
	"CertificateSigning":                   {"certificatesigningrequests.certificates.k8s.io"},
	"CertificateSubjectRestriction":        {"certificatesigningrequests.certificates.k8s.io"},
	"ClusterTrustBundleAttest":             {"clustertrustbundles.certificates.k8s.io"},
	"AlwaysAdmit":                          nil,
	"AlwaysDeny":                           nil,
	"EventRateLimit":                       {"events"},
	"NamespaceAutoProvision":               {"namespaces"},
	"NamespaceExists":                      {"namespaces"},
	"OwnerReferencesPermissionEnforcement": nil,
}

var (
	// The API server makes its system namespaces itself, and most of admission looks at the namespace of an object.
	alwaysNeeds = []string{"namespaces"}
	rbacNeeds   = []string{
		"clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
		"rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io",
	}
	fairnessNeeds = []string{
		"flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
	}
	bootstrapTokenNeeds = []string{"secrets"}
)

// hookNeeds holds what the API server starts on its own, once it serves, and what that writes.
var hookNeeds = map[string][]string{
	"start-cluster-authentication-info-controller":                {"configmaps"},
	"start-legacy-token-tracking-controller":                      {"configmaps"},
	"start-kube-apiserver-identity-lease-controller":              {"leases.coordination.k8s.io"},
	"start-kube-apiserver-identity-lease-garbage-collector":       {"leases.coordination.k8s.io"},
	"start-kube-apiserver-coordinated-leader-election-controller": {"leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io"},
	"priority-and-fairness-config-producer":                       fairnessNeeds,
}

type resourceSet = sets.Set[schema.GroupResource]

// missing returns those of the names that are not served.
func missing(names []string, served resourceSet) []string {
	var found []string
	for _, name := range names {
		if !served.Has(parseResource(name)) {
			found = append(found, name)
		}
	}
	return found
}

// impossible returns the keys of a table of needs that cannot work with what is served, sorted.
func impossible(needs map[string][]string, served resourceSet) []string {
	var found []string
	for name, resources := range needs {
		if len(missing(resources, served)) > 0 {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// wishes are what was asked for and can only work when certain resources are served.
type wishes struct {
	rbac, node, bootstrapTokens, fairness bool
	plugins                               []string // of --enable-admission-plugins
	resources                             []string // of --resources
	crds, aggregation                     bool
}

// problems returns every reason why a server of these wishes would never be ready.
func (w wishes) problems(served resourceSet) []error {
	var errs []error
	need := func(what, remedy string, resources []string) {
		if lacking := missing(resources, served); len(lacking) > 0 {
			errs = append(errs, fmt.Errorf("%s needs %s, which is not served: %s", what, strings.Join(lacking, ", "), remedy))
		}
	}
	need("a control plane", "add it to --resources", alwaysNeeds)
	if w.rbac {
		need("--authorization-mode=RBAC", "add it to --resources", rbacNeeds)
	}
	if w.bootstrapTokens {
		need("--enable-bootstrap-token-auth", "add it to --resources", bootstrapTokenNeeds)
	}
	if w.fairness {
		need("--enable-priority-and-fairness", "add it to --resources or leave the flag out", fairnessNeeds)
	}
	if w.node {
		errs = append(errs, errors.New("--authorization-mode=Node needs nodes and pods, which a generic control plane does not have"))
	}
	for _, plugin := range w.plugins {
		resources, known := pluginNeeds[plugin]
		if !known {
			errs = append(errs, fmt.Errorf("--enable-admission-plugins=%s: it is about resources that a generic control plane does not have", plugin))
			continue
		}
		need("--enable-admission-plugins="+plugin, "add it to --resources or leave the plugin out", resources)
	}
	for _, name := range w.resources {
		switch resource := parseResource(name); resource {
		case crdResource:
			if !w.crds {
				errs = append(errs, fmt.Errorf("--resources names %s, which --crds=false takes away", name))
			}
		case apiServiceResource:
			if !w.aggregation {
				errs = append(errs, fmt.Errorf("--resources names %s, which --aggregation=false takes away", name))
			}
		default:
			if !served.Has(resource) {
				errs = append(errs, fmt.Errorf("--resources names %s, which this version serves only with a feature gate: see --feature-gates in --help", name))
			}
		}
	}
	return errs
}
