// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Command hyper-mini is a Kubernetes control plane without pods and nodes in one process: a single etcd member, the generic API server of
// KEP-4080 and the controllers of its resources. It is made of the packages that k8s.io/kubernetes has for kube-apiserver, kube-controller-manager
// and its sample of a generic control plane; its own part is which of them run, and in which order.
//
// Custom resources (--crds), aggregation (--aggregation), each native resource (--resources) and each controller (--controllers) may be
// left out. What could never become ready is refused at the start.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"
	_ "k8s.io/kubernetes/pkg/features"
)

func init() {
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
}

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "hyper-mini: %v\n", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	options := newFlagOptions()
	command := &cobra.Command{
		Use:           "hyper-mini",
		Short:         "A generic Kubernetes control plane in one process",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			if options.list {
				return printList(os.Stdout)
			}
			return start(options, command.Flags().Changed)
		},
	}
	var flags cliflag.NamedFlagSets
	options.addFlags(&flags)
	verflag.AddFlags(flags.FlagSet("global"))
	globalflag.AddGlobalFlags(flags.FlagSet("global"), command.Name(), logs.SkipLoggingConfigurationFlags())
	for _, name := range flags.Order {
		command.Flags().AddFlagSet(flags.FlagSets[name])
	}
	columns, _, _ := term.TerminalSize(command.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(command, flags, columns)
	return command
}

func start(options *flagOptions, changed func(string) bool) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // warnings of our own server to ourselves
	if err := logsapi.ValidateAndApply(options.apiServer.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	ctx := genericapiserver.SetupSignalContext()
	plan, errs := options.complete(ctx, changed)
	if err := joined(errs); err != nil {
		return err
	}
	return serve(ctx, plan)
}

// printList says what can be chosen, for programs that choose.
func printList(to *os.File) error {
	known, err := offered()
	if err != nil {
		return err
	}
	resources := []string{crdResource.String(), apiServiceResource.String()}
	for _, resource := range known {
		resources = append(resources, resource.GroupResource().String())
	}
	slices.Sort(resources)
	encoder := json.NewEncoder(to)
	return encoder.Encode(map[string]any{
		"version": version.Get().GitVersion, "resources": slices.Compact(resources), "controllers": knownControllers(),
	})
}
