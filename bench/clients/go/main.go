// The load process of amqp10/load/__main__.py with clients of other projects: the same lines on standard input and
// output, the same plan, the same report. Built and started by bench/clients/programs.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// As in amqp10/load/__main__.py: a consumer that does not know how many messages are left for it stops after quietNs
// without one; a consumer that has received everything waits lingerNs for messages that must not come.
const (
	quietNs  = int64(2 * time.Second)
	lingerNs = int64(50 * time.Millisecond)
	stepTime = 5 * time.Millisecond
)

// client is a connection of one of the libraries. An outcome of a message goes to the publisher it was dialled with.
type client interface {
	broker() map[string]string
	publish(ctx context.Context, sequence uint64, body []byte) error
	outcomes(ctx context.Context) error
	consume(ctx context.Context, take func(*delivery)) error
	close()
}

var dialers = map[string]func(context.Context, *plan, *publisher) (client, error){
	"go-amqp": dialGoAMQP, "amqp091-go": dialAMQP091,
}

var started, startedNs = clocks()

// clocks reads Go's clock and the monotonic clock, which all processes of a machine share.
func clocks() (time.Time, int64) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // there is no machine for Go without this clock
	}
	return time.Now(), now.Nano()
}

// monotonicNs is the time of the monotonic clock, from Go's own, which needs no system call.
func monotonicNs() int64 { return startedNs + time.Since(started).Nanoseconds() }

// texts keeps the entries whose values are texts.
func texts[V any](table map[string]V) map[string]string {
	kept := map[string]string{}
	for name, value := range table {
		if text, ok := any(value).(string); ok {
			kept[name] = text
		}
	}
	return kept
}

// process is one run: its client, its publisher and its checker.
type process struct {
	plan      *plan
	input     *bufio.Reader
	output    *json.Encoder
	client    client
	publisher *publisher
	checker   *checker
	startNs   int64
	failures  chan error
}

func (p *process) say(event string, fields map[string]any) error {
	fields["event"] = event
	return p.output.Encode(fields)
}

// order reads the next line; nil at the end of the input.
func (p *process) order() (map[string]*int64, error) {
	line, err := p.input.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var order map[string]*int64
	return order, json.Unmarshal(line, &order)
}

// start runs a part of the client; its failure ends the run, unless the run has ended before.
func (p *process) start(ctx context.Context, part func(context.Context) error) {
	go func() {
		if err := part(ctx); err != nil && ctx.Err() == nil {
			p.failures <- err
		}
	}()
}

// await waits until done, or until there was no progress for this long.
func (p *process) await(patienceNs int64, done func() bool) error {
	askedNs := monotonicNs()
	for !done() {
		progressNs := max(askedNs, p.publisher.lastProgress.Load(), p.checker.lastArrival.Load())
		if monotonicNs()-progressNs > patienceNs {
			return nil
		}
		select {
		case err := <-p.failures:
			return err
		case <-time.After(stepTime):
		}
	}
	return nil
}

func (p *process) measure(startNs int64) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cpuBefore := cpuSeconds()
	application, patienceNs := p.plan.application(), int64(p.plan.PatienceSeconds*1e9)
	p.startNs = startNs
	consumed := make(chan struct{})
	if application.ConsumeFrom != "" {
		p.start(ctx, func(ctx context.Context) error {
			defer close(consumed)
			return p.client.consume(ctx, func(d *delivery) { p.checker.take(d, monotonicNs()) })
		})
	} else {
		close(consumed)
	}
	sent := map[uint32]uint64{}
	if application.publishes() {
		if !p.plan.Traffic.Settled {
			p.start(ctx, p.client.outcomes)
		}
		p.start(ctx, func(ctx context.Context) error { return p.publisher.run(ctx, p.client, startNs) })
		if err := p.await(patienceNs, p.publisher.finished); err != nil {
			return err
		}
		sent[application.Publisher] = p.publisher.sent.Load()
	}
	if err := p.say("published", map[string]any{"sent": sent}); err != nil {
		return err
	}
	if err := p.awaitMessages(patienceNs); err != nil {
		return err
	}
	cancel()
	<-consumed
	return p.report(cpuSeconds() - cpuBefore)
}

func (p *process) awaitMessages(patienceNs int64) error {
	order, err := p.order()
	if err != nil || p.plan.application().ConsumeFrom == "" {
		return err
	}
	expected := order["finish"]
	if expected == nil {
		return p.await(min(quietNs, patienceNs), func() bool { return false })
	}
	if err := p.await(patienceNs, func() bool { return p.checker.total.Load() >= uint64(*expected) }); err != nil {
		return err
	}
	endNs := monotonicNs() + lingerNs
	return p.await(patienceNs, func() bool { return monotonicNs() >= endNs })
}

func (p *process) report(cpuSeconds float64) error {
	latency, err := p.checker.latency.EncodeV2()
	if err != nil {
		return err
	}
	received := []map[uint32][]span{}
	if p.plan.application().ConsumeFrom != "" {
		received = append(received, p.checker.received)
	}
	arrivalNs := p.checker.lastArrival.Load()
	return p.say("report", map[string]any{
		"unconfirmed":      p.publisher.unconfirmed(),
		"refused":          p.publisher.refused.Load(),
		"corrupted":        p.checker.corrupted,
		"received":         received,
		"last_progress_ns": max(p.startNs, arrivalNs, p.publisher.lastProgress.Load()),
		"last_arrival_ns":  arrivalNs,
		"cpu_seconds":      cpuSeconds,
		"latency":          string(latency),
	})
}

func cpuSeconds() float64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it can only fail for a wrong argument
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// run carries out one plan.
func (p *process) run() error {
	line, err := p.input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no plan on the standard input: %w", err)
	}
	if p.plan, err = readPlan(line); err != nil {
		return err
	}
	dial, known := dialers[p.plan.Client]
	if !known {
		return fmt.Errorf("there is no client %q in this program", p.plan.Client)
	}
	p.publisher, p.checker = newPublisher(p.plan), newChecker(p.plan)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.plan.PatienceSeconds*1e9))
	p.client, err = dial(ctx, p.plan, p.publisher)
	cancel()
	if err != nil {
		return err
	}
	defer p.client.close()
	if err := p.say("ready", map[string]any{"broker": p.client.broker()}); err != nil {
		return err
	}
	order, err := p.order()
	if err != nil {
		return err
	}
	if start := order["go"]; start != nil {
		if err := p.measure(*start); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, p.input) // the end of the input is the order to close
	return err
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == "cost" {
		if err := runCost(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	p := &process{
		input: bufio.NewReaderSize(os.Stdin, 1<<20), output: json.NewEncoder(os.Stdout), failures: make(chan error, 3),
	}
	if err := p.run(); err != nil {
		_ = p.say("failed", map[string]any{"reason": err.Error()})
		os.Exit(1)
	}
}
