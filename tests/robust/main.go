// Command robust runs etcd's own robustness traffic against a cluster, and etcd's own validators on what came of it.
//
// "robust traffic" writes, reads and watches until the time is over and saves what every client saw.
// "robust validate" reads that and the write-ahead logs of all members, and ends with 1 where a history is not
// linearizable, a watch broke a promise, or a read of an old revision differs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"go.etcd.io/etcd/tests/v3/robustness/client"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
)

// The longest that the linearizability check may take.
const validateTimeout = 5 * time.Minute

// How long clients may take to end after the traffic's time.
const grace = 4 * time.Minute

// How long a request may go on after the traffic's time.
const requestGrace = 3 * time.Second

// How long one try of the last write may take.
const lastTimeout = 2 * time.Second

// The names of the traffic that "make robust" knows.
var traffics = map[string]traffic.Traffic{
	"etcd":       traffic.EtcdPutDeleteLease,
	"kubernetes": traffic.Kubernetes,
}

func main() {
	lg, err := logger()
	if err == nil {
		err = run(lg, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "robust:", err)
		os.Exit(1)
	}
}

func logger() (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.OutputPaths = []string{"stdout"}
	config.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
	config.DisableStacktrace = true
	return config.Build()
}

func run(lg *zap.Logger, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: robust traffic|validate [flags]")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	path := flags.String("report", "", "directory of the report")
	switch args[0] {
	case "traffic":
		endpoints := flags.String("endpoints", "", "client URLs of all hosts that may be members, with commas between them")
		name := flags.String("traffic", "kubernetes", "etcd or kubernetes")
		members := flags.Int("members", 3, "at how many endpoints a watch must see everything")
		duration := flags.Duration("duration", time.Minute, "how long requests are sent")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return generate(lg, strings.Split(*endpoints, ","), *members, *name, *path, *duration)
	case "validate":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return check(lg, *path, flags.Args())
	default:
		return fmt.Errorf("%q is neither traffic nor validate", args[0])
	}
}

// generate sends requests for the duration and saves what every client saw.
func generate(lg *zap.Logger, endpoints []string, members int, name, path string, duration time.Duration) error {
	chosen, ok := traffics[name]
	if !ok {
		return fmt.Errorf("traffic %q is neither etcd nor kubernetes", name)
	}
	detail := &report.TrafficDetail{ExpectUniqueRevision: chosen.ExpectUniqueRevision()}
	saved, err := report.NewTestReport(lg, path, nil, detail)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), duration+grace)
	defer cancel()
	base := time.Now()
	reports, err := send(ctx, lg, chosen, endpoints, members, base, duration)
	// Also of a round that failed: they show what happened.
	saved.SetClientReports(reports)
	if err := errors.Join(err, saved.SaveEtcdData()); err != nil {
		return err
	}
	stats := traffic.CalculateStats(reports, 0, time.Since(base))
	fmt.Printf("%d requests succeeded, %d failed\n", stats.Successes, stats.Failures)
	if stats.Successes == 0 {
		return errors.New("no request succeeded")
	}
	return nil
}

func send(
	ctx context.Context, lg *zap.Logger, chosen traffic.Traffic, endpoints []string, members int, base time.Time,
	duration time.Duration,
) ([]report.ClientReport, error) {
	ids := identity.NewIDProvider()
	clients := client.NewSet(ids, base)
	defer clients.Close()
	watchers := client.NewSet(ids, base)
	defer watchers.Close()
	// The model begins with an empty database.
	if err := traffic.CheckEmptyDatabaseAtStart(ctx, lg, endpoints, clients); err != nil {
		return nil, err
	}
	last := make(chan int64, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := simulate(ctx, lg, chosen, endpoints, clients, duration); err != nil {
			return err
		}
		if err := writeLast(ctx, endpoints, clients); err != nil {
			return err
		}
		last <- report.OperationsMaxRevision(clients.Reports())
		return nil
	})
	group.Go(func() error { return follow(ctx, endpoints, members, watchers, last) })
	err := group.Wait()
	return slices.Concat(clients.Reports(), watchers.Reports()), err
}

// writeLast writes until a write succeeds: the validators want the last operation to have succeeded.
func writeLast(ctx context.Context, endpoints []string, clients *client.ClientSet) error {
	c, err := clients.NewClient(endpoints)
	if err != nil {
		return err
	}
	defer c.Close()
	for try := 1; ; try++ {
		// Another value each time, as the validators tell writes apart by their values.
		short, cancel := context.WithTimeout(ctx, lastTimeout)
		_, err := c.Put(short, "tombstone", fmt.Sprint(try))
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the last write did not succeed: %w", err)
		}
		pause(ctx)
	}
}

func simulate(
	ctx context.Context, lg *zap.Logger, chosen traffic.Traffic, endpoints []string, clients *client.ClientSet, duration time.Duration,
) error {
	// Some of the suite's requests have no deadline of their own: one to a host that is off would last for ever.
	ctx, cancel := context.WithTimeout(ctx, duration+requestGrace)
	defer cancel()
	profile := traffic.KeyValueMedium
	finish := make(chan struct{})
	timer := time.AfterFunc(duration, func() { close(finish) })
	defer timer.Stop()
	limiter := rate.NewLimiter(rate.Limit(profile.MaximalQPS), profile.BurstableQPS)
	keys := traffic.NewKeyStore(10, "key")
	storage := traffic.NewKubernetesStorage()
	var running sync.WaitGroup
	err := traffic.SimulateKeyValueTraffic(ctx, &running, &profile, endpoints, clients, chosen, traffic.RunTrafficLoopParam{
		QPSLimiter:                         limiter,
		IDs:                                clients.IdentityProvider(),
		LeaseIDStorage:                     identity.NewLeaseIDStorage(),
		NonUniqueRequestConcurrencyLimiter: traffic.NewConcurrencyLimiter(profile.MaxNonUniqueRequestConcurrency),
		KeyStore:                           keys,
		Storage:                            storage,
		Finish:                             finish,
	})
	if err != nil {
		return err
	}
	err = traffic.SimulateWatchTraffic(ctx, &running, &traffic.WatchDefault, endpoints, clients, chosen, traffic.RunWatchLoopParam{
		Config:     traffic.WatchDefault,
		QPSLimiter: limiter,
		KeyStore:   keys,
		Storage:    storage,
		Finish:     finish,
		Logger:     lg,
	})
	if err != nil {
		return err
	}
	err = traffic.SimulateCompactionTraffic(ctx, &running, &traffic.CompactionDefault, endpoints, clients, chosen,
		traffic.RunCompactLoopParam{Period: traffic.CompactionDefault.Period, Finish: finish})
	if err != nil {
		return err
	}
	running.Wait()
	return nil
}

// check runs etcd's validators on a report and on the data directories of all that were ever members.
func check(lg *zap.Logger, path string, dirs []string) error {
	reports, err := report.LoadClientReports(path)
	if err != nil {
		return fmt.Errorf("reading the report in %s: %w", path, err)
	}
	detail, err := report.LoadTrafficDetail(path)
	if err != nil {
		return fmt.Errorf("reading the report in %s: %w", path, err)
	}
	requests, err := report.PersistedRequests(lg, dirs)
	if err != nil {
		return fmt.Errorf("reading the write-ahead logs of %s: %w", strings.Join(dirs, ", "), err)
	}
	if len(requests) == 0 {
		return errors.New("the write-ahead logs hold no request")
	}
	config := validate.Config{ExpectRevisionUnique: detail.ExpectUniqueRevision}
	result := validate.ValidateAndReturnVisualize(lg, config, reports, requests, validateTimeout)
	if err := result.Error(); err != nil {
		if drawn := result.Linearization.Visualize(lg, path+"/history.html"); drawn != nil {
			lg.Warn("the history cannot be drawn", zap.Error(drawn))
		}
		return err
	}
	fmt.Printf("%d persisted requests: linearizable, watches and old revisions as promised\n", len(requests))
	return nil
}
