// Package interop drives Headgate with go-amqp. HEADGATE_URL says where the broker is; it has the queues go-0 to go-19,
// all empty. Run by tests/interop/other_languages.py.
package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
)

var queues atomic.Int32

func newQueue() string { return fmt.Sprintf("/queues/go-%d", queues.Add(1)-1) }

func ctxFor(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, opts *amqp.ConnOptions) *amqp.Conn {
	t.Helper()
	conn := must[*amqp.Conn](t)(amqp.Dial(ctxFor(t), os.Getenv("HEADGATE_URL"), opts))
	t.Cleanup(func() { check(t, conn.Close()) })
	return conn
}

func session(t *testing.T, opts *amqp.ConnOptions) *amqp.Session {
	t.Helper()
	return must[*amqp.Session](t)(connect(t, opts).NewSession(ctxFor(t), nil))
}

func sender(t *testing.T, s *amqp.Session, address string, opts *amqp.SenderOptions) *amqp.Sender {
	t.Helper()
	return must[*amqp.Sender](t)(s.NewSender(ctxFor(t), address, opts))
}

func receiver(t *testing.T, s *amqp.Session, address string, opts *amqp.ReceiverOptions) *amqp.Receiver {
	t.Helper()
	return must[*amqp.Receiver](t)(s.NewReceiver(ctxFor(t), address, opts))
}

func text(number int) []byte { return fmt.Appendf(nil, "message %d", number) }

// publish sends messages without waiting for each, then waits until all are accepted.
func publish(t *testing.T, s *amqp.Sender, n int) {
	t.Helper()
	ctx := ctxFor(t)
	receipts := make([]amqp.SendReceipt, 0, n)
	for number := range n {
		receipts = append(receipts, must[amqp.SendReceipt](t)(s.SendWithReceipt(ctx, amqp.NewMessage(text(number)), nil)))
	}
	for _, receipt := range receipts {
		state := must[amqp.DeliveryState](t)(receipt.Wait(ctx))
		if _, ok := state.(*amqp.StateAccepted); !ok {
			t.Fatalf("a message is %v", state)
		}
	}
}

// take receives the messages with these numbers, in this order.
func take(t *testing.T, r *amqp.Receiver, first, n int, each func(*amqp.Message) error) {
	t.Helper()
	ctx := ctxFor(t)
	for number := first; number < first+n; number++ {
		msg := must[*amqp.Message](t)(r.Receive(ctx, nil))
		if !bytes.Equal(msg.GetData(), text(number)) {
			t.Fatalf("got %q, expected number %d", msg.GetData(), number)
		}
		check(t, each(msg))
	}
}

func accept(t *testing.T, r *amqp.Receiver) func(*amqp.Message) error {
	ctx := ctxFor(t)
	return func(msg *amqp.Message) error { return r.AcceptMessage(ctx, msg) }
}

func keep(*amqp.Message) error { return nil }

func expectError(t *testing.T, err error, condition amqp.ErrCond, part string) {
	t.Helper()
	var told *amqp.Error
	if !errors.As(err, &told) || told.Condition != condition || !strings.Contains(told.Description, part) {
		t.Fatalf("got %v", err)
	}
}

func TestTenThousandMessagesOnOneSession(t *testing.T) {
	s, queue := session(t, nil), newQueue()
	r := receiver(t, s, queue, &amqp.ReceiverOptions{Credit: 200})
	done := make(chan struct{})
	go func() {
		defer close(done)
		take(t, r, 0, 10_000, accept(t, r))
	}()
	publish(t, sender(t, s, queue, nil), 10_000)
	<-done
}

func TestCreditOfOne(t *testing.T) {
	s, queue := session(t, nil), newQueue()
	publish(t, sender(t, s, queue, nil), 100)
	r := receiver(t, s, queue, &amqp.ReceiverOptions{Credit: 1})
	take(t, r, 0, 100, accept(t, r))
}

func TestCreditByHandAndDrain(t *testing.T) {
	s, queue := session(t, nil), newQueue()
	r := receiver(t, s, queue, &amqp.ReceiverOptions{Credit: -1})
	publish(t, sender(t, s, queue, nil), 20)
	check(t, r.IssueCredit(5))
	take(t, r, 0, 5, accept(t, r))
	if msg := r.Prefetched(); msg != nil {
		t.Fatalf("%q came without link credit", msg.GetData())
	}
	check(t, r.IssueCredit(50))
	take(t, r, 5, 15, accept(t, r))
	check(t, r.DrainCredit(ctxFor(t), nil)) // of the 35 that are left
	publish(t, sender(t, s, queue, nil), 1)
	time.Sleep(50 * time.Millisecond)
	if msg := r.Prefetched(); msg != nil {
		t.Fatalf("%q came on drained link credit", msg.GetData())
	}
	check(t, r.IssueCredit(1))
	take(t, r, 0, 1, accept(t, r))
	check(t, r.DrainCredit(ctxFor(t), nil)) // with no link credit left
}

func TestDrainOfAnEmptyQueue(t *testing.T) {
	r := receiver(t, session(t, nil), newQueue(), &amqp.ReceiverOptions{Credit: -1})
	for range 3 {
		check(t, r.IssueCredit(10))
		check(t, r.DrainCredit(ctxFor(t), nil))
	}
}

func TestLinkCreditOfTwoToThe31(t *testing.T) {
	s, queue := session(t, nil), newQueue()
	r := receiver(t, s, queue, &amqp.ReceiverOptions{Credit: -1})
	check(t, r.IssueCredit(1<<31+5))
	publish(t, sender(t, s, queue, nil), 600)
	take(t, r, 0, 600, accept(t, r))
}

func TestMessagesOfManyFrames(t *testing.T) {
	s, queue := session(t, &amqp.ConnOptions{MaxFrameSize: 512}), newQueue()
	snd, r := sender(t, s, queue, nil), receiver(t, s, queue, nil)
	body := bytes.Repeat([]byte("0123456789"), 30_000)
	for range 3 {
		check(t, snd.Send(ctxFor(t), amqp.NewMessage(body), nil))
		check(t, snd.Send(ctxFor(t), amqp.NewMessage([]byte("short")), nil))
		for _, expected := range [][]byte{body, []byte("short")} {
			msg := must[*amqp.Message](t)(r.Receive(ctxFor(t), nil))
			if !bytes.Equal(msg.GetData(), expected) {
				t.Fatalf("%d bytes came back, expected %d", len(msg.GetData()), len(expected))
			}
			check(t, r.AcceptMessage(ctxFor(t), msg))
		}
	}
}

func TestRequestAndReply(t *testing.T) {
	s, queue, ctx := session(t, nil), newQueue(), ctxFor(t)
	answers := receiver(t, s, "", &amqp.ReceiverOptions{DynamicAddress: true})
	if !strings.HasPrefix(answers.Address(), "/queues/amq.dyn-") {
		t.Fatalf("the dynamic node is %q", answers.Address())
	}
	address := answers.Address()
	question := amqp.NewMessage([]byte("question"))
	question.Properties = &amqp.MessageProperties{ReplyTo: &address, CorrelationID: uint64(7)}
	check(t, sender(t, s, queue, nil).Send(ctx, question, nil))

	server := session(t, nil)
	requests := receiver(t, server, queue, nil)
	request := must[*amqp.Message](t)(requests.Receive(ctx, nil))
	check(t, requests.AcceptMessage(ctx, request))
	answer := amqp.NewMessage([]byte("answer"))
	answer.Properties = &amqp.MessageProperties{To: request.Properties.ReplyTo, CorrelationID: request.Properties.CorrelationID}
	check(t, sender(t, server, "", nil).Send(ctx, answer, nil)) // to the anonymous terminus

	msg := must[*amqp.Message](t)(answers.Receive(ctx, nil))
	if msg.Properties.CorrelationID != uint64(7) {
		t.Fatalf("correlation-id %v", msg.Properties.CorrelationID)
	}
}

func TestOutcomesOfAConsumer(t *testing.T) {
	s, queue, ctx := session(t, nil), newQueue(), ctxFor(t)
	publish(t, sender(t, s, queue, nil), 5)
	r := receiver(t, s, queue, &amqp.ReceiverOptions{Credit: -1})
	check(t, r.IssueCredit(5))
	dispose := []func(*amqp.Message) error{
		func(msg *amqp.Message) error { return r.AcceptMessage(ctx, msg) },
		func(msg *amqp.Message) error {
			return r.RejectMessage(ctx, msg, &amqp.Error{Condition: amqp.ErrCondNotAllowed})
		},
		func(msg *amqp.Message) error { return r.ReleaseMessage(ctx, msg) },
		func(msg *amqp.Message) error {
			return r.ModifyMessage(ctx, msg, &amqp.ModifyMessageOptions{
				DeliveryFailed: true, Annotations: amqp.Annotations{"x-opt-why": "busy"},
			})
		},
		func(msg *amqp.Message) error {
			return r.ModifyMessage(ctx, msg, &amqp.ModifyMessageOptions{UndeliverableHere: true})
		},
	}
	taken := make([]*amqp.Message, 0, 5)
	take(t, r, 0, 5, func(msg *amqp.Message) error { taken = append(taken, msg); return nil })
	for number, msg := range taken {
		check(t, dispose[number](msg))
	}
	check(t, r.IssueCredit(5))
	take(t, r, 2, 1, accept(t, r))
	take(t, r, 3, 1, func(msg *amqp.Message) error {
		if msg.Header.DeliveryCount != 1 || msg.Annotations["x-opt-why"] != "busy" {
			t.Fatalf("came back as %+v %v", msg.Header, msg.Annotations)
		}
		return r.AcceptMessage(ctx, msg)
	})
	check(t, r.DrainCredit(ctx, nil))
	if msg := r.Prefetched(); msg != nil {
		t.Fatalf("%q is undeliverable here", msg.GetData())
	}
	other := receiver(t, s, queue, nil)
	take(t, other, 4, 1, accept(t, other))
}

func TestWhatAClosedLinkHadNotSettled(t *testing.T) {
	s, queue := session(t, nil), newQueue()
	publish(t, sender(t, s, queue, nil), 10)
	first := receiver(t, s, queue, &amqp.ReceiverOptions{Credit: 7})
	take(t, first, 0, 7, keep)
	check(t, first.Close(ctxFor(t)))
	second := receiver(t, s, queue, nil)
	take(t, second, 0, 10, accept(t, second))
}

func TestSettledBothWays(t *testing.T) {
	s, queue, ctx := session(t, nil), newQueue(), ctxFor(t)
	r := receiver(t, s, queue, &amqp.ReceiverOptions{
		Credit: 100, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
	})
	snd := sender(t, s, queue, &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()})
	go func() {
		for number := range 2000 {
			check(t, snd.Send(ctx, amqp.NewMessage(text(number)), nil))
		}
	}()
	take(t, r, 0, 2000, keep)
}

func TestReceiverSettleModeSecond(t *testing.T) {
	s, queue := session(t, nil), newQueue()
	publish(t, sender(t, s, queue, nil), 100)
	r := receiver(t, s, queue, &amqp.ReceiverOptions{
		Credit: 10, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
	})
	take(t, r, 0, 100, accept(t, r)) // each accept waits until the broker has settled
}

func TestRefusedLinks(t *testing.T) {
	s, ctx := session(t, nil), ctxFor(t)
	_, err := s.NewSender(ctx, "/queues/nowhere", nil)
	expectError(t, err, amqp.ErrCondNotFound, "there is no queue 'nowhere'")
	_, err = s.NewReceiver(ctx, "/queues/nowhere", nil)
	expectError(t, err, amqp.ErrCondNotFound, "there is no queue 'nowhere'")
	_, err = s.NewReceiver(ctx, "orders", nil)
	expectError(t, err, amqp.ErrCondInvalidField, "here perhaps '/queues/orders'")
	sender(t, s, "", nil) // the session goes on
}

func TestOutcomesOfAPublisher(t *testing.T) {
	s, ctx := session(t, nil), ctxFor(t)
	receipt := must[amqp.SendReceipt](t)(
		sender(t, s, "/exchanges/amq.direct/nobody", nil).SendWithReceipt(ctx, amqp.NewMessage(nil), nil))
	state := must[amqp.DeliveryState](t)(receipt.Wait(ctx))
	if _, ok := state.(*amqp.StateReleased); !ok {
		t.Fatalf("unroutable: %T", state)
	}
	anonymous := sender(t, s, "", nil)
	expectError(t, anonymous.Send(ctx, amqp.NewMessage(nil), nil), amqp.ErrCondPreconditionFailed, "'to'")
}

func TestAnIdleTimeOutOfHalfASecond(t *testing.T) {
	conn := connect(t, &amqp.ConnOptions{IdleTimeout: time.Second}) // announced as half of it
	time.Sleep(1500 * time.Millisecond)
	must[*amqp.Session](t)(conn.NewSession(ctxFor(t), nil))
}

func TestAWrongPassword(t *testing.T) {
	url := strings.Replace(os.Getenv("HEADGATE_URL"), "guest:guest", "guest:wrong", 1)
	_, err := amqp.Dial(ctxFor(t), url, nil)
	if err == nil || !strings.Contains(err.Error(), "SASL PLAIN auth failed") {
		t.Fatalf("got %v", err)
	}
}

func TestManySessionsThatBeginAndEnd(t *testing.T) {
	conn, queue := connect(t, nil), newQueue()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 10 { // the channel is used again at once
				s := must[*amqp.Session](t)(conn.NewSession(ctxFor(t), nil))
				publish(t, sender(t, s, queue, nil), 20)
				check(t, s.Close(ctxFor(t)))
			}
		})
	}
	all.Wait()
	s := must[*amqp.Session](t)(conn.NewSession(ctxFor(t), nil))
	r, ctx := receiver(t, s, queue, &amqp.ReceiverOptions{Credit: 500}), ctxFor(t)
	for range 2000 {
		check(t, r.AcceptMessage(ctx, must[*amqp.Message](t)(r.Receive(ctx, nil))))
	}
}

func TestAQueueThatHoldsUpOneLinkOnly(t *testing.T) {
	s, slow, quick := session(t, nil), newQueue(), newQueue()
	publish(t, sender(t, s, slow, nil), 500)
	publish(t, sender(t, s, quick, nil), 500)
	blocked := receiver(t, s, slow, &amqp.ReceiverOptions{Credit: -1})
	r := receiver(t, s, quick, &amqp.ReceiverOptions{Credit: 50})
	take(t, r, 0, 500, accept(t, r))
	check(t, blocked.IssueCredit(500))
	take(t, blocked, 0, 500, accept(t, blocked))
}
