// Copyright (c) 2026, ballast.kube contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

const (
	// The member's name is that of the separate etcd, so that either can be started on the other's data.
	memberName = "ballast"
	// Longer paths cannot be bound (sun_path of unix(7)).
	longestSocket = 107
	// Opening a data directory takes long only when a large log has to be read again.
	etcdStartTimeout = 2 * time.Minute
	etcdStopTimeout  = 2 * time.Second
)

// etcdOptions are those of the single member inside of this process.
type etcdOptions struct {
	dataDir, clientURL, certFile, keyFile, trustedCAFile string
	unsafeNoFsync                                        bool
}

func (o *etcdOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.dataDir, "etcd-data-dir", "", "Data directory of the embedded etcd member. Without it --etcd-servers names an etcd elsewhere.")
	flags.StringVar(&o.clientURL, "etcd-listen-client-url", "", "https URL at which the embedded etcd serves others, such as etcdctl. This process needs none: it uses a socket in the data directory.")
	flags.StringVar(&o.certFile, "etcd-cert-file", "", "Serving certificate for --etcd-listen-client-url.")
	flags.StringVar(&o.keyFile, "etcd-key-file", "", "Key of --etcd-cert-file.")
	flags.StringVar(&o.trustedCAFile, "etcd-trusted-ca-file", "", "CA whose client certificates are let in at --etcd-listen-client-url.")
	flags.BoolVar(&o.unsafeNoFsync, "etcd-unsafe-no-fsync", false, "Let the embedded etcd leave writes in the page cache: quick, and data may be lost when the machine (not this process) dies.")
}

func (o *etcdOptions) embedded() bool { return o.dataDir != "" }

// socket is where the API server reaches the member. Inside the data directory, the only place that this process may write to, and
// below member, since the separate etcd warns of files beside that one.
func (o *etcdOptions) socket() string { return filepath.Join(o.dataDir, "member", "hyper-mini.sock") }

func (o *etcdOptions) validate() []error {
	tls := map[string]string{"--etcd-cert-file": o.certFile, "--etcd-key-file": o.keyFile, "--etcd-trusted-ca-file": o.trustedCAFile}
	if !o.embedded() {
		if o.clientURL != "" || o.unsafeNoFsync || o.certFile+o.keyFile+o.trustedCAFile != "" {
			return []error{errors.New("--etcd-listen-client-url, --etcd-cert-file, --etcd-key-file, --etcd-trusted-ca-file and --etcd-unsafe-no-fsync are of the embedded etcd: they need --etcd-data-dir")}
		}
		return nil
	}
	var errs []error
	if !filepath.IsAbs(o.dataDir) {
		errs = append(errs, fmt.Errorf("--etcd-data-dir: %s is not absolute", o.dataDir))
	}
	if path := o.socket(); len(path) > longestSocket {
		errs = append(errs, fmt.Errorf("--etcd-data-dir: %s is too long for a socket, at most %d characters", path, longestSocket))
	}
	for _, name := range []string{"--etcd-cert-file", "--etcd-key-file", "--etcd-trusted-ca-file"} {
		if (tls[name] == "") != (o.clientURL == "") {
			errs = append(errs, fmt.Errorf("%s and --etcd-listen-client-url go together", name))
		}
	}
	if at, err := url.Parse(o.clientURL); o.clientURL != "" && (err != nil || at.Scheme != "https" || at.Port() == "") {
		errs = append(errs, fmt.Errorf("--etcd-listen-client-url: %s is not of the form https://127.0.0.1:2379", o.clientURL))
	}
	return errs
}

// config of the member. One process on one machine needs less than a cluster's defaults.
func (o *etcdOptions) config(level zap.AtomicLevel) (*embed.Config, error) {
	config := embed.NewConfig()
	config.Name, config.Dir = memberName, o.dataDir
	config.UnsafeNoFsync = o.unsafeNoFsync
	logger := zap.NewProductionConfig() // one line of JSON per event, on stderr
	logger.Level = level
	built, err := logger.Build(zap.WithCaller(false))
	if err != nil {
		return nil, err
	}
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(built)
	// A single member elects itself as soon as an election is due; nobody's heartbeat can be late.
	config.TickMs, config.ElectionMs = 20, 200
	// The log is kept in memory for followers that fall behind, and there are none.
	config.SnapshotCount, config.SnapshotCatchUpEntries = 5000, 100

	if err := os.MkdirAll(filepath.Dir(o.socket()), 0o700); err != nil {
		return nil, err
	}
	local := url.URL{Scheme: "unix", Path: o.socket()}
	config.ListenClientUrls = []url.URL{local}
	config.AdvertiseClientUrls = config.ListenClientUrls
	if o.clientURL != "" {
		at, err := url.Parse(o.clientURL)
		if err != nil {
			return nil, err
		}
		config.ListenClientUrls = append(config.ListenClientUrls, *at)
		config.AdvertiseClientUrls = []url.URL{*at}
		config.ClientTLSInfo = transport.TLSInfo{CertFile: o.certFile, KeyFile: o.keyFile, TrustedCAFile: o.trustedCAFile, ClientCertAuth: true}
	}
	// No listener for peers. The address below only names the member in a new cluster of one.
	config.ListenPeerUrls = nil
	config.InitialCluster = config.InitialClusterFromName(memberName)
	return config, nil
}

// start opens the data directory and returns when the member answers. The returned function ends it: everything that was acknowledged
// is in its log already, so an end in the middle of anything loses nothing.
func (o *etcdOptions) start(ctx context.Context) (stop func(), failed <-chan error, err error) {
	// At first only errors: its warnings then are about what was meant so. At the end it calls the closing of each listener an error.
	level := zap.NewAtomicLevelAt(zap.ErrorLevel)
	config, err := o.config(level)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(o.dataDir, 0o700); err != nil {
		return nil, nil, err
	}
	if err := refuseUsed(filepath.Join(o.dataDir, "member", "snap", "db")); err != nil {
		return nil, nil, fmt.Errorf("--etcd-data-dir %s: %w", o.dataDir, err)
	}
	began := time.Now()
	member, err := embed.StartEtcd(config)
	if err != nil {
		return nil, nil, fmt.Errorf("etcd cannot be started on %s: %w", o.dataDir, err)
	}
	stop = func() {
		level.SetLevel(zap.PanicLevel)
		closed := make(chan struct{})
		go func() { member.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(etcdStopTimeout):
		}
	}
	select {
	case <-member.Server.ReadyNotify():
		level.SetLevel(zap.WarnLevel)
		klog.InfoS("etcd is ready", "directory", o.dataDir, "seconds", time.Since(began).Seconds())
		return stop, member.Err(), nil
	case err = <-member.Err():
	case <-member.Server.StopNotify():
		err = errors.New("it stopped")
	case <-time.After(etcdStartTimeout):
		err = fmt.Errorf("not ready after %s", etcdStartTimeout)
	case <-ctx.Done():
		err = errors.New("interrupted")
	}
	stop()
	return nil, nil, fmt.Errorf("etcd on %s did not become ready: %w", o.dataDir, err)
}

// refuseUsed says so when another etcd, embedded or not, has the database open. Etcd itself takes over the socket first and then waits
// for the lock without an end.
func refuseUsed(database string) error {
	file, err := os.Open(database)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("another process has it open")
	}
	return nil // closing the file gives the lock back
}
