package main

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// amqp091Go is a connection of github.com/rabbitmq/amqp091-go with a channel for publishing and one for consuming.
type amqp091Go struct {
	plan       *plan
	publisher  *publisher
	conn       *amqp091.Connection
	publishing *amqp091.Channel
	consuming  *amqp091.Channel
	confirms   chan amqp091.Confirmation
	closed     chan *amqp091.Error
}

func dialAMQP091(_ context.Context, p *plan, pub *publisher) (client, error) {
	conn, err := amqp091.DialConfig(p.URL, amqp091.Config{FrameSize: int(p.MaxFrameSize)})
	if err != nil {
		return nil, err
	}
	c := &amqp091Go{plan: p, publisher: pub, conn: conn, closed: make(chan *amqp091.Error, 3)}
	conn.NotifyClose(c.closed)
	if p.application().publishes() {
		if err := c.openPublishing(); err != nil {
			return nil, err
		}
	}
	if p.application().ConsumeFrom != "" {
		if c.consuming, err = conn.Channel(); err != nil {
			return nil, err
		}
		if err := c.consuming.Qos(int(p.application().LinkCredit), 0, false); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *amqp091Go) openPublishing() error {
	var err error
	if c.publishing, err = c.conn.Channel(); err != nil || c.plan.Traffic.Settled {
		return err
	}
	c.confirms = c.publishing.NotifyPublish(make(chan amqp091.Confirmation, cap(c.publisher.slots)))
	return c.publishing.Confirm(false)
}

func (c *amqp091Go) broker() map[string]string { return texts(c.conn.Properties) }

func (c *amqp091Go) message(sequence uint64, body []byte) amqp091.Publishing {
	message, publisher := amqp091.Publishing{Body: body}, c.plan.application().Publisher
	if c.plan.Traffic.Durable {
		message.DeliveryMode = amqp091.Persistent
	}
	if c.plan.hasIDs() {
		message.MessageId, message.ContentType = messageID(publisher, sequence), contentType
	}
	if c.plan.hasProperties() {
		message.Headers = properties(publisher, sequence)
	}
	if c.plan.hasPriorities() {
		message.Priority = priority(sequence)
	}
	return message
}

func (c *amqp091Go) publish(ctx context.Context, sequence uint64, body []byte) error {
	to := c.plan.destination(sequence)
	return c.publishing.PublishWithContext(ctx, to.Exchange, to.RoutingKey, false, false, c.message(sequence, body))
}

// outcomes takes the confirms, which amqp091-go gives one by one and in the order of publishing.
func (c *amqp091Go) outcomes(ctx context.Context) error {
	for {
		select {
		case confirm, open := <-c.confirms:
			if !open {
				return c.why()
			}
			c.publisher.outcome(confirm.Ack)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *amqp091Go) why() error {
	if reason := <-c.closed; reason != nil {
		return fmt.Errorf("the broker closed the connection: %w", reason)
	}
	return errors.New("the broker closed a channel")
}

// consume acknowledges each delivery; settled traffic is consumed with no-ack.
func (c *amqp091Go) consume(ctx context.Context, take func(*delivery)) error {
	queue, settled := c.plan.application().ConsumeFrom, c.plan.Traffic.Settled
	deliveries, err := c.consuming.Consume(queue, "", settled, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case d, open := <-deliveries:
			if !open {
				return c.why()
			}
			take(&delivery{
				body: d.Body, messageID: d.MessageId, contentType: d.ContentType, priority: d.Priority, properties: d.Headers,
			})
			if !settled {
				if err := d.Ack(false); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *amqp091Go) close() { _ = c.conn.Close() } // it may be closed already, which is the aim
