package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// numberedBytes is the smallest body: 4 bytes publisher, 8 bytes sequence number. At an offered rate 8 bytes intended
// send time follow. Both as in amqp10/load/plan.py.
const (
	numberedBytes = 12
	stampedBytes  = 20
)

// traffic has the fields of amqp10.load.plan.Traffic.
type traffic struct {
	Shape    string  `json:"shape"`
	Size     int     `json:"size"`
	Settled  bool    `json:"settled"`
	Durable  bool    `json:"durable"`
	Rate     float64 `json:"rate"`
	Seconds  float64 `json:"seconds"`
	Messages uint64  `json:"messages"`
	InFlight int     `json:"in_flight"`
	Seed     int     `json:"seed"`
	Content  string  `json:"content"`
	Keys     int     `json:"keys"`
	Sizes    []int   `json:"sizes"`
	Timed    bool    `json:"timed"`
}

// application has the fields of amqp10.load.plan.Application.
type application struct {
	Publisher   uint32 `json:"publisher"`
	PublishTo   string `json:"publish_to"`
	Exchange    string `json:"exchange"`
	ConsumeFrom string `json:"consume_from"`
	LinkCredit  int32  `json:"link_credit"`
	Batch       int    `json:"batch"`
	Protocol    string `json:"protocol"`
	Shares      string `json:"shares"`
}

func (a *application) publishes() bool { return a.PublishTo != "" || a.Exchange != "" }

// plan has the fields of amqp10.load.plan.Plan, and those that bench/clients/programs.py derives from them: the client,
// how much later than the others the publisher starts, the bytes that fill the bodies, one item for each size in turn,
// and the destinations in turn.
type plan struct {
	URL             string        `json:"url"`
	Traffic         traffic       `json:"traffic"`
	Applications    []application `json:"applications"`
	MaxFrameSize    uint32        `json:"max_frame_size"`
	PatienceSeconds float64       `json:"patience_seconds"`
	Client          string        `json:"client"`
	LeadNs          int64         `json:"lead_ns"`
	Paddings        [][]byte      `json:"paddings"`
	Destinations    []destination `json:"destinations"`
}

// destination is where a message is published to: an address of AMQP 1.0, an exchange and a routing key of AMQP 0.9.1.
type destination struct {
	Address    string `json:"address"`
	Exchange   string `json:"exchange"`
	RoutingKey string `json:"routing_key"`
}

// readPlan refuses a field that it does not know, so that no part of a newer plan is left out in silence.
func readPlan(line []byte) (*plan, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var p plan
	if err := decoder.Decode(&p); err != nil {
		return nil, fmt.Errorf("this plan is for another version of the program, build it again: %w", err)
	}
	if len(p.Applications) != 1 {
		return nil, fmt.Errorf("%d applications: one process has one", len(p.Applications))
	}
	if p.Traffic.Timed {
		return nil, fmt.Errorf("timed: this program measures no time from sending a message to its outcome")
	}
	return &p, nil
}

func (p *plan) application() *application { return &p.Applications[0] }

func (p *plan) stamped() bool { return p.Traffic.Rate > 0 }

func (p *plan) numbersBytes() int {
	if p.stamped() {
		return stampedBytes
	}
	return numberedBytes
}

// messagesMax is how many messages a publisher sends; at an offered rate all intended messages, however late.
func (p *plan) messagesMax() uint64 {
	if p.stamped() {
		return min(p.Traffic.Messages, uint64(p.Traffic.Rate*p.Traffic.Seconds))
	}
	return p.Traffic.Messages
}

func (p *plan) padding(sequence uint64) []byte { return p.Paddings[sequence%uint64(len(p.Paddings))] }

func (p *plan) destination(sequence uint64) *destination {
	return &p.Destinations[sequence%uint64(len(p.Destinations))]
}

// body is the body of a message of this publisher.
func (p *plan) body(sequence uint64, intendedNs int64) []byte {
	body := make([]byte, 0, p.numbersBytes()+len(p.padding(sequence)))
	body = binary.BigEndian.AppendUint32(body, p.application().Publisher)
	body = binary.BigEndian.AppendUint64(body, sequence)
	if p.stamped() {
		body = binary.BigEndian.AppendUint64(body, uint64(intendedNs))
	}
	return append(body, p.padding(sequence)...)
}

// The content of a message beside its body. `alike` has none; `ids` an id and a content-type; `properties` also three
// application-properties or headers; `priorities` also a priority.

const contentType = "application/octet-stream"

func (p *plan) hasIDs() bool        { return p.Traffic.Content != "alike" }
func (p *plan) hasProperties() bool { return p.hasIDs() && p.Traffic.Content != "ids" }
func (p *plan) hasPriorities() bool { return p.Traffic.Content == "priorities" }

func messageID(publisher uint32, sequence uint64) string {
	return fmt.Sprintf("%d-%d", publisher, sequence)
}

func priority(sequence uint64) uint8 { return uint8(sequence % 10) }

func properties(publisher uint32, sequence uint64) map[string]any {
	return map[string]any{
		"number": int64(sequence),
		"kind":   fmt.Sprintf("kind-%d", sequence%7),
		"odd":    (uint64(publisher)+sequence)%2 == 1,
	}
}
