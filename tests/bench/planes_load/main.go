// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Command planes-load asks an API server for one kind of object from several clients at a time: first it creates
// objects, then it gets them. Each client has one connection (HTTP/1.1 over TLS, kept) and asks again as soon as it has
// its answer. It prints what that took as JSON, latencies in microseconds.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Phase is what the clients measured together. Each latency is from the request to the end of its answer.
type Phase struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
	P50      int64   `json:"p50_us"`
	P99      int64   `json:"p99_us"`
	Max      int64   `json:"max_us"`
	CPU      float64 `json:"client_cpu_seconds"`
}

type load struct {
	collection string
	apiVersion string
	kind       string
	body       map[string]any
	clients    []*http.Client
}

func main() {
	server := flag.String("server", "", "URL of the API server")
	authority := flag.String("ca", "", "certificate of its authority")
	certificate := flag.String("cert", "", "certificate of the client")
	key := flag.String("key", "", "its key")
	path := flag.String("path", "", "path of the collection")
	apiVersion := flag.String("api-version", "v1", "apiVersion of the objects")
	kind := flag.String("kind", "ConfigMap", "kind of the objects")
	body := flag.String("body", "{}", "what an object has beside its metadata, as JSON")
	clients := flag.Int("clients", 16, "clients that ask at a time")
	creates := flag.Int("creates", 4000, "objects that are created")
	gets := flag.Int("gets", 16000, "times that one of them is got")
	flag.Parse()

	fields := map[string]any{}
	check(json.Unmarshal([]byte(*body), &fields))
	one := &load{collection: *server + *path, apiVersion: *apiVersion, kind: *kind, body: fields}
	for range *clients {
		one.clients = append(one.clients, connection(*authority, *certificate, *key))
	}
	warm := *clients * 20
	one.run("warm", warm, one.create)
	found := map[string]Phase{
		"create": one.run("bench", *creates, one.create),
	}
	one.run("warm", warm, one.get)
	found["get"] = one.run("bench", *gets, func(client *http.Client, prefix string, number int) error {
		return one.get(client, prefix, number*7919%*creates) // a prime: neighbours in time are none in the key space
	})
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func connection(authority, certificate, key string) *http.Client {
	text, err := os.ReadFile(authority)
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	check(err)
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}},
			TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
			MaxConnsPerHost: 1,
		},
	}
}

func (l *load) create(client *http.Client, prefix string, number int) error {
	object := map[string]any{
		"apiVersion": l.apiVersion,
		"kind":       l.kind,
		"metadata":   map[string]any{"name": fmt.Sprintf("%s-%d", prefix, number)},
	}
	for name, part := range l.body {
		object[name] = part
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return ask(client, http.MethodPost, l.collection, text, http.StatusCreated)
}

func (l *load) get(client *http.Client, prefix string, number int) error {
	return ask(client, http.MethodGet, fmt.Sprintf("%s/%s-%d", l.collection, prefix, number), nil, http.StatusOK)
}

func ask(client *http.Client, method, url string, body []byte, wanted int) error {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != wanted {
		return fmt.Errorf("%s %s: %s: %.300s", method, url, answer.Status, text)
	}
	return nil
}

// run has all clients do `count` of one thing, and ends the program when one of them fails.
func (l *load) run(prefix string, count int, do func(*http.Client, string, int) error) Phase {
	var next atomic.Int64
	var group sync.WaitGroup
	spent := make([][]int64, len(l.clients))
	cpu, begun := cpuSeconds(), time.Now()
	for at, client := range l.clients {
		group.Go(func() {
			for number := int(next.Add(1)) - 1; number < count; number = int(next.Add(1)) - 1 {
				start := time.Now()
				check(do(client, prefix, number))
				spent[at] = append(spent[at], time.Since(start).Microseconds())
			}
		})
	}
	group.Wait()
	seconds := time.Since(begun).Seconds()
	var all []int64
	for _, part := range spent {
		all = append(all, part...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	return Phase{
		Requests: count,
		Seconds:  seconds,
		P50:      all[(len(all)-1)*50/100],
		P99:      all[(len(all)-1)*99/100],
		Max:      all[len(all)-1],
		CPU:      cpuSeconds() - cpu,
	}
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	seconds := func(value syscall.Timeval) float64 { return float64(value.Sec) + float64(value.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "planes-load:", err)
		os.Exit(1)
	}
}
