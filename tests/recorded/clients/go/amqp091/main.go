// The script of RabbitMQ's client of AMQP 0.9.1. HEADGATE_URL says where the broker is. Run by
// tests/recorded/clients/amqp091_go.py.
package main

import (
	"context"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const queue = "recorded-go091"

var ctx = context.Background()

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func topology(ch *amqp.Channel) {
	must(ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}))
	must(ch.QueueDeclarePassive(queue, true, false, false, false, nil))
	for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
		check(ch.ExchangeDeclare(queue+"-"+kind, kind, false, true, false, false, nil))
	}
	check(ch.ExchangeDeclarePassive(queue+"-topic", "topic", false, true, false, false, nil))
	check(ch.ExchangeBind(queue+"-fanout", "a.#", queue+"-topic", false, nil))
	check(ch.QueueBind(queue, "key", queue+"-fanout", false, nil))
	own := must(ch.QueueDeclare("", false, true, true, false, nil))
	check(ch.QueueBind(own.Name, "key", queue+"-direct", false, amqp.Table{"any": int32(1)}))
	check(ch.QueueUnbind(own.Name, "key", queue+"-direct", amqp.Table{"any": int32(1)}))
	must(ch.QueueDelete(own.Name, true, true, false))
	check(ch.ExchangeDelete(queue+"-headers", true, false))
}

func publish(ch *amqp.Channel, exchange, key string, mandatory bool, message amqp.Publishing) {
	confirmation := must(ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, false, message))
	must(confirmation.WaitContext(ctx))
}

func publishing(conn *amqp.Connection) {
	ch := must(conn.Channel())
	check(ch.Confirm(false))
	returns := ch.NotifyReturn(make(chan amqp.Return, 10))
	for _, size := range []int{0, 1, 3000, 30000} {
		publish(ch, "", queue, false, amqp.Publishing{Body: make([]byte, size), DeliveryMode: amqp.Persistent})
	}
	publish(ch, queue+"-topic", "a.b", true, amqp.Publishing{
		ContentType: "text/plain", ContentEncoding: "none", Priority: 3, CorrelationId: "c", ReplyTo: "r",
		Expiration: "600000", MessageId: "m", Timestamp: time.Unix(1_000_000_000, 0), Type: "t", UserId: "guest", AppId: "a",
		// one key in each table: Go writes the keys of a map in any order
		Headers: amqp.Table{"nested": amqp.Table{"list": []any{int64(1), "two", true, nil, 0.5}}},
		Body:    []byte("properties"),
	})
	publish(ch, queue+"-topic", "nothing", true, amqp.Publishing{Body: []byte("returned")})
	<-returns
	check(ch.Close())
}

func consuming(conn *amqp.Connection) {
	ch := must(conn.Channel())
	check(ch.Qos(2, 0, false))
	deliveries := must(ch.ConsumeWithContext(ctx, queue, "one", false, false, false, false, nil))
	check((<-deliveries).Ack(false))
	check((<-deliveries).Nack(false, true))
	check((<-deliveries).Reject(false))
	check(ch.Cancel("one", false))
	for range deliveries {
	}
	for range 2 {
		delivery, ok, err := ch.Get(queue, false)
		check(err)
		if ok {
			check(delivery.Ack(false))
		}
	}
	must(ch.QueuePurge(queue, false))
	must2(ch.Get(queue, true))
	check(ch.Close())
}

func must2(_ amqp.Delivery, _ bool, err error) { check(err) }

func transaction(conn *amqp.Connection) {
	ch := must(conn.Channel())
	check(ch.Tx())
	check(ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: []byte("undone")}))
	check(ch.TxRollback())
	check(ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: []byte("done")}))
	check(ch.TxCommit())
	must2(ch.Get(queue, true))
	check(ch.Close())
}

func faults(conn *amqp.Connection) {
	for _, fault := range []func(*amqp.Channel) error{
		func(ch *amqp.Channel) error { return ch.QueueBind("no-such-queue", "", "amq.direct", false, nil) },
		func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("amq.direct", "fanout", true, false, false, false, nil)
		},
		func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
			return err
		},
		func(ch *amqp.Channel) error { return ch.ExchangeDelete("amq.topic", false, false) },
	} {
		if err := fault(must(conn.Channel())); err == nil {
			panic("no fault")
		}
	}
}

func main() {
	conn := must(amqp.DialConfig(os.Getenv("HEADGATE_URL"), amqp.Config{FrameSize: 8192, ChannelMax: 100}))
	ch := must(conn.Channel())
	topology(ch)
	publishing(conn)
	consuming(conn)
	transaction(conn)
	faults(conn)
	must(ch.QueueDelete(queue, false, false, false))
	check(ch.Close())
	check(conn.Close())
}
