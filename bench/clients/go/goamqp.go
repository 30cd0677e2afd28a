package main

import (
	"context"
	"fmt"
	"os"

	"github.com/Azure/go-amqp"
)

// goAMQP is a connection of github.com/Azure/go-amqp with one session. Sends are concurrent: a message goes out while
// earlier ones have no outcome yet.
type goAMQP struct {
	plan      *plan
	publisher *publisher
	conn      *amqp.Conn
	session   *amqp.Session
	sender    *amqp.Sender
	receipts  chan amqp.SendReceipt
	anonymous bool
}

func dialGoAMQP(ctx context.Context, p *plan, pub *publisher) (client, error) {
	conn, err := amqp.Dial(ctx, p.URL, &amqp.ConnOptions{
		ContainerID: fmt.Sprintf("bench-%d", os.Getpid()), MaxFrameSize: p.MaxFrameSize,
	})
	if err != nil {
		return nil, err
	}
	c := &goAMQP{plan: p, publisher: pub, conn: conn, anonymous: p.application().Exchange != ""}
	if c.session, err = conn.NewSession(ctx, nil); err != nil {
		return nil, err
	}
	if !p.application().publishes() {
		return c, nil
	}
	target := p.Destinations[0].Address
	if c.anonymous {
		target = ""
	}
	mode := amqp.SenderSettleModeUnsettled
	if p.Traffic.Settled {
		mode = amqp.SenderSettleModeSettled
	}
	if c.sender, err = c.session.NewSender(ctx, target, &amqp.SenderOptions{SettlementMode: &mode}); err != nil {
		return nil, err
	}
	c.receipts = make(chan amqp.SendReceipt, cap(pub.slots))
	return c, nil
}

func (c *goAMQP) broker() map[string]string {
	return texts(c.conn.Properties())
}

func (c *goAMQP) message(sequence uint64, body []byte) *amqp.Message {
	message, publisher := amqp.NewMessage(body), c.plan.application().Publisher
	if c.plan.Traffic.Durable || c.plan.hasPriorities() {
		message.Header = &amqp.MessageHeader{Durable: c.plan.Traffic.Durable, Priority: 4} // 4 is the default [3.2.1]
	}
	if c.plan.hasPriorities() {
		message.Header.Priority = priority(sequence)
	}
	if c.anonymous || c.plan.hasIDs() {
		message.Properties = &amqp.MessageProperties{}
	}
	if c.anonymous {
		message.Properties.To = &c.plan.destination(sequence).Address
	}
	if c.plan.hasIDs() {
		media := contentType
		message.Properties.MessageID, message.Properties.ContentType = messageID(publisher, sequence), &media
	}
	if c.plan.hasProperties() {
		message.ApplicationProperties = properties(publisher, sequence)
	}
	return message
}

func (c *goAMQP) publish(ctx context.Context, sequence uint64, body []byte) error {
	message := c.message(sequence, body)
	if c.plan.Traffic.Settled {
		return c.sender.Send(ctx, message, nil)
	}
	receipt, err := c.sender.SendWithReceipt(ctx, message, nil)
	if err == nil {
		c.receipts <- receipt
	}
	return err
}

// outcomes waits for the outcome of each message, in the order of sending.
func (c *goAMQP) outcomes(ctx context.Context) error {
	for {
		select {
		case receipt := <-c.receipts:
			state, err := receipt.Wait(ctx)
			if err != nil {
				return err
			}
			_, accepted := state.(*amqp.StateAccepted)
			c.publisher.outcome(accepted)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// consume attaches with link credit, accepts each delivery, and go-amqp renews link credit as it sees fit.
func (c *goAMQP) consume(ctx context.Context, take func(*delivery)) error {
	options := &amqp.ReceiverOptions{Credit: c.plan.application().LinkCredit}
	if c.plan.Traffic.Settled {
		options.RequestedSenderSettleMode = amqp.SenderSettleModeSettled.Ptr()
	}
	receiver, err := c.session.NewReceiver(ctx, "/queues/"+c.plan.application().ConsumeFrom, options)
	if err != nil {
		return err
	}
	for {
		message, err := receiver.Receive(ctx, nil)
		if err != nil {
			return err
		}
		take(received(message))
		if !c.plan.Traffic.Settled {
			if err := receiver.AcceptMessage(ctx, message); err != nil {
				return err
			}
		}
	}
}

func received(message *amqp.Message) *delivery {
	d := &delivery{body: message.GetData(), properties: message.ApplicationProperties}
	if message.Header != nil {
		d.priority = message.Header.Priority
	}
	if message.Properties != nil {
		d.messageID, _ = message.Properties.MessageID.(string)
		if message.Properties.ContentType != nil {
			d.contentType = *message.Properties.ContentType
		}
	}
	return d
}

func (c *goAMQP) close() { _ = c.conn.Close() } // it may be closed already, which is the aim
