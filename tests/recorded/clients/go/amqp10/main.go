// The script of go-amqp. HEADGATE_URL says where the broker is. Run by tests/recorded/clients/go_amqp.py.
package main

import (
	"context"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

const queue = "/queues/recorded-go"

var ctx context.Context

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func publish(s *amqp.Sender, messages ...*amqp.Message) {
	for _, message := range messages {
		receipt := must(s.SendWithReceipt(ctx, message, nil))
		must(receipt.Wait(ctx))
	}
}

func take(r *amqp.Receiver, n uint32, each func(*amqp.Message) error) {
	check(r.IssueCredit(n))
	for range n {
		check(each(must(r.Receive(ctx, nil))))
	}
}

// request asks the management node, over a pair of links.
func request(s *amqp.Session, method, path string, body any) {
	paired := map[string]any{"paired": true}
	name := "pair " + method + " " + path
	r := must(s.NewReceiver(ctx, "/management", &amqp.ReceiverOptions{
		Name: name, Credit: -1, Properties: paired, TargetAddress: "/management",
		RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(), SettlementMode: amqp.ReceiverSettleModeFirst.Ptr(),
	}))
	check(r.IssueCredit(1)) // long before the request: go-amqp may write the flow after the next transfer
	snd := must(s.NewSender(ctx, "/management", &amqp.SenderOptions{
		Name: name, Properties: paired, SourceAddress: "/management", SettlementMode: amqp.SenderSettleModeSettled.Ptr(),
	}))
	me := "$me"
	check(snd.Send(ctx, &amqp.Message{
		Properties: &amqp.MessageProperties{MessageID: "1", Subject: &method, To: &path, ReplyTo: &me}, Value: body,
	}, nil))
	must(r.Receive(ctx, nil))
	check(snd.Close(ctx))
	check(r.Close(ctx))
}

func publishing(s *amqp.Session) {
	snd := must(s.NewSender(ctx, queue, &amqp.SenderOptions{Name: "publishing"}))
	for _, size := range []int{0, 1, 400, 3000, 40000} {
		message := amqp.NewMessage(make([]byte, size))
		message.Header = &amqp.MessageHeader{Durable: size > 1}
		publish(snd, message)
	}
	reply, subject := "/queues/reply", "subject"
	publish(snd, &amqp.Message{
		Header:                &amqp.MessageHeader{Durable: true, Priority: 9, TTL: time.Hour},
		DeliveryAnnotations:   amqp.Annotations{"x-opt-hop": 1},
		Annotations:           amqp.Annotations{"x-opt-any": "thing"},
		Properties:            &amqp.MessageProperties{MessageID: uint64(5), ReplyTo: &reply, Subject: &subject},
		ApplicationProperties: map[string]any{"text": "täxt", "number": int32(5)},
		Sequence:              [][]any{{"one", int64(2)}, {3.0}},
		Footer:                amqp.Annotations{"x-opt-foot": true},
	})
	check(snd.Close(ctx))
	settled := must(s.NewSender(ctx, queue, &amqp.SenderOptions{
		Name: "settled", SettlementMode: amqp.SenderSettleModeSettled.Ptr(),
	}))
	for range 3 {
		check(settled.Send(ctx, amqp.NewMessage([]byte("settled")), nil))
	}
	check(settled.Close(ctx))
	unrouted := must(s.NewSender(ctx, "/exchanges/amq.direct/recorded-nothing", &amqp.SenderOptions{Name: "unrouted"}))
	publish(unrouted, amqp.NewMessage(nil))
	check(unrouted.Close(ctx))
	anonymous := must(s.NewSender(ctx, "", &amqp.SenderOptions{Name: "anonymous terminus"}))
	address := queue
	publish(anonymous, &amqp.Message{Properties: &amqp.MessageProperties{To: &address}}, amqp.NewMessage(nil))
	check(anonymous.Close(ctx))
}

func consuming(s *amqp.Session) {
	r := must(s.NewReceiver(ctx, queue, &amqp.ReceiverOptions{Name: "consuming", Credit: -1}))
	accept := func(message *amqp.Message) error { return r.AcceptMessage(ctx, message) }
	take(r, 1, accept)
	take(r, 1, func(message *amqp.Message) error {
		return r.RejectMessage(ctx, message, &amqp.Error{Condition: amqp.ErrCondNotAllowed, Description: "no"})
	})
	take(r, 1, func(message *amqp.Message) error { return r.ReleaseMessage(ctx, message) })
	take(r, 1, func(message *amqp.Message) error {
		return r.ModifyMessage(ctx, message, &amqp.ModifyMessageOptions{
			DeliveryFailed: true, Annotations: amqp.Annotations{"x-opt-why": "busy"},
		})
	})
	take(r, 1, func(message *amqp.Message) error {
		return r.ModifyMessage(ctx, message, &amqp.ModifyMessageOptions{UndeliverableHere: true})
	})
	take(r, 2, accept)
	check(r.IssueCredit(50))
	check(r.DrainCredit(ctx, nil))
	for message := r.Prefetched(); message != nil; message = r.Prefetched() {
		check(accept(message))
	}
	check(r.Close(ctx))
	second := must(s.NewReceiver(ctx, queue, &amqp.ReceiverOptions{
		Name: "second", Credit: -1, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
	}))
	take(second, 1, func(message *amqp.Message) error { return second.AcceptMessage(ctx, message) })
	check(second.Close(ctx))
	// one link that the broker settles
	settled := must(s.NewReceiver(ctx, queue, &amqp.ReceiverOptions{
		Name: "settled by the broker", Credit: -1, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
		SettlementMode: amqp.ReceiverSettleModeFirst.Ptr(),
	}))
	check(settled.IssueCredit(10))
	check(settled.DrainCredit(ctx, nil))
	check(settled.Close(ctx))
}

func dynamic(conn *amqp.Conn, s *amqp.Session) {
	answers := must(s.NewReceiver(ctx, "", &amqp.ReceiverOptions{Name: "dynamic", Credit: -1, DynamicAddress: true}))
	other := must(conn.NewSession(ctx, nil))
	snd := must(other.NewSender(ctx, answers.Address(), &amqp.SenderOptions{Name: "to the dynamic node"}))
	publish(snd, amqp.NewMessage([]byte("answer")))
	check(other.Close(ctx))
	take(answers, 1, func(message *amqp.Message) error { return answers.AcceptMessage(ctx, message) })
	check(answers.Close(ctx))
}

func refused(s *amqp.Session) {
	for _, address := range []string{"/queues/nowhere", "orders", "/exchanges/nowhere/key"} {
		if _, err := s.NewSender(ctx, address, &amqp.SenderOptions{Name: "refused sender " + address}); err == nil {
			panic(address)
		}
		if _, err := s.NewReceiver(ctx, address, &amqp.ReceiverOptions{Name: "refused receiver " + address}); err == nil {
			panic(address)
		}
	}
	// whether this is refused depends on the age of the broker
	filter := amqp.NewSelectorFilter("a = 'b'")
	r, err := s.NewReceiver(ctx, queue, &amqp.ReceiverOptions{Name: "filtered", Credit: -1, Filters: []amqp.LinkFilter{filter}})
	if err == nil {
		check(r.Close(ctx))
	}
	// so does the mode of the answer, and go-amqp closes the link when that is another one
	r, err = s.NewReceiver(ctx, queue, &amqp.ReceiverOptions{
		Name: "second and settled", Credit: -1, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
		SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
	})
	if err == nil {
		check(r.Close(ctx))
	}
}

func main() {
	limited, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ctx = limited
	conn := must(amqp.Dial(ctx, os.Getenv("HEADGATE_URL"), &amqp.ConnOptions{
		ContainerID: "recorded-go", MaxFrameSize: 2048, IdleTimeout: -1,
	}))
	s := must(conn.NewSession(ctx, nil))
	request(s, "PUT", queue, map[string]any{"durable": true})
	request(s, "GET", queue, nil)
	publishing(s)
	consuming(s)
	dynamic(conn, s)
	refused(s)
	request(s, "DELETE", queue+"/messages", nil)
	request(s, "DELETE", queue, nil)
	check(s.Close(ctx))
	check(conn.Close())
}
