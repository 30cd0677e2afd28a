package main

import (
	"context"
	"sync/atomic"
	"time"
)

// unsettledMax bounds the messages without an outcome of a publisher whose plan has no bound. It is more than brokers
// leave without an outcome.
const unsettledMax = 65536

// publisher sends the messages of one plan, in order. At an offered rate the n-th message is intended at start +
// n / rate, where publishers start one after the other, and carries that time even if it is sent later.
type publisher struct {
	plan         *plan
	slots        chan struct{}
	stopped      atomic.Bool
	sent         atomic.Uint64
	settled      atomic.Uint64
	refused      atomic.Uint64
	lastProgress atomic.Int64
}

func newPublisher(p *plan) *publisher {
	made := &publisher{plan: p}
	if !p.Traffic.Settled {
		bound := p.Traffic.InFlight
		if bound == 0 {
			bound = unsettledMax
		}
		made.slots = make(chan struct{}, bound)
	}
	return made
}

// outcome notes the broker's outcome of one message.
func (p *publisher) outcome(accepted bool) {
	if !accepted {
		p.refused.Add(1)
	}
	p.settled.Add(1)
	p.lastProgress.Store(monotonicNs())
	<-p.slots
}

func (p *publisher) finished() bool {
	return p.stopped.Load() && (p.plan.Traffic.Settled || p.settled.Load() >= p.sent.Load())
}

// unconfirmed counts messages without an outcome.
func (p *publisher) unconfirmed() uint64 {
	if p.plan.Traffic.Settled {
		return 0
	}
	return p.sent.Load() - p.settled.Load()
}

// run publishes until the time or the messages of the plan are over.
func (p *publisher) run(ctx context.Context, c client, startNs int64) error {
	p.lastProgress.Store(startNs)
	endNs := startNs + int64(p.plan.Traffic.Seconds*1e9)
	for sequence := range p.plan.messagesMax() {
		if p.slots != nil {
			select {
			case p.slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var intendedNs int64
		if p.plan.stamped() {
			intendedNs = startNs + p.plan.LeadNs + int64(float64(sequence)*1e9/p.plan.Traffic.Rate)
			time.Sleep(time.Duration(intendedNs - monotonicNs()))
		} else if monotonicNs() >= endNs {
			break
		}
		p.sent.Add(1)
		if err := c.publish(ctx, sequence, p.plan.body(sequence, intendedNs)); err != nil {
			return err
		}
		p.lastProgress.Store(monotonicNs())
	}
	p.stopped.Store(true)
	return nil
}
