package main

import (
	"reflect"
	"testing"
)

func planOf(content string, sizes ...int) *plan {
	p := &plan{Traffic: traffic{Content: content, Messages: 10}, Applications: []application{{Publisher: 3}}}
	for _, size := range sizes {
		p.Paddings = append(p.Paddings, make([]byte, size-numberedBytes))
	}
	return p
}

// sent is a message as it should arrive.
func sent(p *plan, sequence uint64) *delivery {
	d := &delivery{body: p.body(sequence, 0)}
	if p.hasIDs() {
		d.messageID, d.contentType = messageID(3, sequence), contentType
	}
	if p.hasProperties() {
		d.properties = properties(3, sequence)
	}
	if p.hasPriorities() {
		d.priority = priority(sequence)
	}
	return d
}

func TestTheLedgerShowsWhatIsLostDuplicatedAndReordered(t *testing.T) {
	for name, one := range map[string]struct {
		arrived  []uint64
		expected []span
	}{
		"faithful":   {[]uint64{0, 1, 2, 3}, []span{{0, 4}}},
		"lost":       {[]uint64{0, 2, 3}, []span{{0, 1}, {2, 2}}},
		"duplicated": {[]uint64{0, 1, 1, 2}, []span{{0, 2}, {1, 2}}},
		"reordered":  {[]uint64{0, 2, 1, 3}, []span{{0, 1}, {2, 1}, {1, 1}, {3, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := planOf("alike", 12)
			c := newChecker(p)
			for _, sequence := range one.arrived {
				c.take(sent(p, sequence), 1)
			}
			if !reflect.DeepEqual(c.received[3], one.expected) || c.corrupted != 0 {
				t.Fatalf("%v, %d corrupted", c.received, c.corrupted)
			}
		})
	}
}

func TestADamagedMessageIsCorruptedAndNotInTheLedger(t *testing.T) {
	for name, damage := range map[string]func(*delivery){
		"a changed body":        func(d *delivery) { d.body[len(d.body)-1] ^= 1 },
		"a body cut off":        func(d *delivery) { d.body = d.body[:len(d.body)-1] },
		"no body":               func(d *delivery) { d.body = nil },
		"another message-id":    func(d *delivery) { d.messageID = messageID(3, 8) },
		"no content-type":       func(d *delivery) { d.contentType = "" },
		"a lost property":       func(d *delivery) { delete(d.properties, "kind") },
		"a property's type":     func(d *delivery) { d.properties["number"] = int32(1) },
		"another priority":      func(d *delivery) { d.priority++ },
		"the next one's length": func(d *delivery) { d.body = append(d.body, make([]byte, 20)...) },
	} {
		t.Run(name, func(t *testing.T) {
			p := planOf("priorities", 20, 40)
			c := newChecker(p)
			c.take(sent(p, 0), 1)
			d := sent(p, 1)
			damage(d)
			c.take(d, 2)
			if c.corrupted != 1 || !reflect.DeepEqual(c.received[3], []span{{0, 1}}) {
				t.Fatalf("%v, %d corrupted", c.received, c.corrupted)
			}
		})
	}
}

func TestAPlanWithAnUnknownFieldIsRefused(t *testing.T) {
	if _, err := readPlan([]byte(`{"applications": [{}], "traffic": {"colour": "red"}}`)); err == nil {
		t.Fatal("it was taken")
	}
	if _, err := readPlan([]byte(`{"applications": []}`)); err == nil {
		t.Fatal("a plan without an application was taken")
	}
}
