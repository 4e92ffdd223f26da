package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/tests/v3/robustness/client"
)

// The longest rest of a watch between two looks, and between the end of one watch and the next.
const rest = 100 * time.Millisecond

// follow watches all changes at each endpoint, until that many of them have told the revision that comes in last. The
// suite's own watchers want every endpoint to tell it. Here a host may be a spare at the end.
func follow(ctx context.Context, endpoints []string, members int, clients *client.ClientSet, last <-chan int64) error {
	watched, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	seen := make([]atomic.Int64, len(endpoints))
	for i, endpoint := range endpoints {
		c, err := clients.NewClient([]string{endpoint})
		if err != nil {
			return err
		}
		running.Go(func() {
			defer c.Close()
			watchAll(watched, c, &seen[i])
		})
	}
	var wanted int64
	select {
	case wanted = <-last:
	case <-ctx.Done():
		return fmt.Errorf("the traffic did not end: %w", ctx.Err())
	}
	for {
		complete := 0
		var told []string
		for i, endpoint := range endpoints {
			if seen[i].Load() >= wanted {
				complete++
			}
			told = append(told, fmt.Sprintf("%s %d", endpoint, seen[i].Load()))
		}
		if complete >= members {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("watches at %d endpoints were to reach revision %d, got %v: %w", members, wanted, told, ctx.Err())
		}
		pause(ctx)
	}
}

// watchAll watches from the first revision on. Each watch that ends is followed by one from where it ended.
func watchAll(ctx context.Context, c *client.RecordingClient, seen *atomic.Int64) {
	seen.Store(1)
	for ctx.Err() == nil {
		watchOnce(ctx, c, seen)
		pause(ctx)
	}
}

func watchOnce(ctx context.Context, c *client.RecordingClient, seen *atomic.Int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := c.Watch(ctx, "", seen.Load()+1, true, true, false)
	for {
		select {
		case <-time.After(rest):
			// It waits for a connection: not longer than until the next look.
			short, done := context.WithTimeout(ctx, rest)
			_ = c.RequestProgress(short)
			done()
		case response, ok := <-responses:
			if !ok {
				return
			}
			if response.Err() != nil {
				// What was compacted cannot be watched any more.
				seen.Store(max(seen.Load(), response.CompactRevision))
				return
			}
			if count := len(response.Events); count > 0 {
				seen.Store(response.Events[count-1].Kv.ModRevision)
			}
		}
	}
}

func pause(ctx context.Context) {
	select {
	case <-time.After(rest):
	case <-ctx.Done():
	}
}
