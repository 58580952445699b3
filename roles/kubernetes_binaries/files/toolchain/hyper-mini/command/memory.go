// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	openapi "k8s.io/kube-openapi/pkg/common"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// A process that serves little is mostly what its start left behind. These are the parts that were worth it, measured in README.md.

// The controllers start when the server is nearly ready, and what watches fills its stores after.
const startTail = 10 * time.Second

// settle is called once, when the server is ready, and acts when the start is over. How often garbage is collected stays as Go has it (GOGC): more often spares nothing that shows
// when idle, and costs custom resources, which are made of many small parts, some 8 % of their speed.
func settle(ctx context.Context) {
	select {
	case <-time.After(startTail):
	case <-ctx.Done():
		return
	}
	debug.FreeOSMemory()
	if err := dropProgramPages(); err != nil {
		klog.InfoS("the pages of the program stay in memory", "reason", err.Error())
	}
}

// dropProgramPages unmaps the program's code and constants, a hundred megabytes of which only the start read most. Pages that are needed come back
// from the page cache as they are touched. Only mappings that cannot be written are dropped: those hold nothing but the file.
func dropProgramPages() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		begin, end, found := readOnlyMapping(lines.Text(), program)
		if !found {
			continue
		}
		if _, _, number := syscall.Syscall(syscall.SYS_MADVISE, begin, end-begin, syscall.MADV_DONTNEED); number != 0 {
			return number
		}
	}
	return nil
}

// readOnlyMapping reads a line of proc(5)'s maps: its addresses, if it maps the file and cannot be written.
func readOnlyMapping(line, file string) (begin, end uintptr, found bool) {
	var rights string
	if _, err := fmt.Sscanf(line, "%x-%x %s", &begin, &end, &rights); err != nil {
		return 0, 0, false
	}
	return begin, end, strings.HasSuffix(line, " "+file) && !strings.Contains(rights, "w")
}

// The types of the OpenAPI documents: all of these groups, these of the core group, and what they are made of.
var (
	documentedGroups = []string{
		"admissionregistration", "apiserverinternal", "authentication", "authorization", "certificates", "coordination", "events", "flowcontrol",
		"rbac", "storagemigration",
	}
	documentedCore = []string{"ConfigMap", "Event", "Namespace", "ResourceQuota", "Secret", "ServiceAccount"}
)

// openAPIDefinitions are upstream's without those of pods, deployments and the like. The server keeps several copies of them.
func openAPIDefinitions(ref openapi.ReferenceCallback) map[string]openapi.OpenAPIDefinition {
	all, kept := generatedopenapi.GetOpenAPIDefinitions(ref), map[string]openapi.OpenAPIDefinition{}
	var keep func(string)
	keep = func(name string) {
		definition, known := all[name]
		if _, already := kept[name]; already || !known {
			return
		}
		kept[name] = definition
		for _, needed := range definition.Dependencies {
			keep(needed)
		}
	}
	for name := range all {
		if isDocumented(name) {
			keep(name)
		}
	}
	return kept
}

// isDocumented takes names such as io.k8s.api.core.v1.ConfigMapList.
func isDocumented(name string) bool {
	name, ofAPI := strings.CutPrefix(name, "io.k8s.api.")
	if !ofAPI {
		return true // of the machinery, and of the two other servers
	}
	parts := strings.Split(name, ".")
	if parts[0] != "core" {
		return slices.Contains(documentedGroups, parts[0])
	}
	return slices.Contains(documentedCore, strings.TrimSuffix(parts[len(parts)-1], "List"))
}
