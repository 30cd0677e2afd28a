package main

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const latencyMicrosecondsMax = 60_000_000

// delivery is a message as a client has received it. A field that the client's library does not give is empty.
type delivery struct {
	body        []byte
	messageID   string
	contentType string
	priority    uint8
	properties  map[string]any
}

// span is a first sequence number and a count.
type span [2]uint64

// checker is the ledger of one consumer. It notes the sequence numbers of each publisher in order of arrival, as
// ranges; amqp10.load.ledger judges them. A message that is not as it was sent counts as corrupted, and as lost too.
type checker struct {
	plan        *plan
	received    map[uint32][]span
	corrupted   int
	latency     *hdrhistogram.Histogram
	total       atomic.Uint64
	lastArrival atomic.Int64
}

func newChecker(p *plan) *checker {
	return &checker{plan: p, received: map[uint32][]span{}, latency: hdrhistogram.New(1, latencyMicrosecondsMax, 3)}
}

func (c *checker) take(d *delivery, nowNs int64) {
	c.lastArrival.Store(nowNs)
	publisher, sequence, ok := c.numbers(d)
	if !ok {
		c.corrupted++
		return
	}
	c.note(publisher, sequence)
	if c.plan.stamped() {
		stamp := int64(binary.BigEndian.Uint64(d.body[numberedBytes:]))
		// The value is within the histogram's bounds, so there is no error.
		_ = c.latency.RecordValue(min(max((nowNs-stamp)/1000, 1), latencyMicrosecondsMax))
	}
	c.total.Add(1)
}

// numbers returns the publisher and the sequence number of a message, and whether the message is as it was sent.
func (c *checker) numbers(d *delivery) (uint32, uint64, bool) {
	head := c.plan.numbersBytes()
	if len(d.body) < head {
		return 0, 0, false
	}
	publisher, sequence := binary.BigEndian.Uint32(d.body), binary.BigEndian.Uint64(d.body[4:])
	return publisher, sequence, bytes.Equal(d.body[head:], c.plan.padding(sequence)) && c.contentIntact(d, publisher, sequence)
}

func (c *checker) contentIntact(d *delivery, publisher uint32, sequence uint64) bool {
	if c.plan.hasIDs() && (d.messageID != messageID(publisher, sequence) || d.contentType != contentType) {
		return false
	}
	if c.plan.hasProperties() {
		for name, value := range properties(publisher, sequence) {
			if d.properties[name] != value {
				return false
			}
		}
	}
	return !c.plan.hasPriorities() || d.priority == priority(sequence)
}

func (c *checker) note(publisher uint32, sequence uint64) {
	spans := c.received[publisher]
	if last := len(spans) - 1; last >= 0 && spans[last][0]+spans[last][1] == sequence {
		spans[last][1]++
		return
	}
	c.received[publisher] = append(spans, span{sequence, 1})
}
