// The CPU time of go-amqp for a message, for python -m bench.client_cost: one by one, many together, received.
package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"

	"github.com/Azure/go-amqp"
)

const (
	costBytes    = 100
	costTogether = 256
)

// cost sends n messages one by one, n together, and receives all. It prints microseconds a message.
func cost(url, queue string, n int) error {
	ctx, body := context.Background(), make([]byte, costBytes)
	conn, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	sender, err := session.NewSender(ctx, "/queues/"+queue, nil)
	if err != nil {
		return err
	}
	before := cpuSeconds()
	perMessage := func(messages int) float64 {
		now := cpuSeconds()
		spent := (now - before) * 1e6 / float64(messages)
		before = now
		return spent
	}
	for range n {
		if err := sender.Send(ctx, amqp.NewMessage(body), nil); err != nil {
			return err
		}
	}
	figures := map[string]float64{"one by one": perMessage(n)}
	for begin := 0; begin < n; begin += costTogether {
		receipts := []amqp.SendReceipt{}
		for range min(costTogether, n-begin) {
			receipt, err := sender.SendWithReceipt(ctx, amqp.NewMessage(body), nil)
			if err != nil {
				return err
			}
			receipts = append(receipts, receipt)
		}
		for _, receipt := range receipts {
			if _, err := receipt.Wait(ctx); err != nil {
				return err
			}
		}
	}
	figures["together"] = perMessage(n)
	receiver, err := session.NewReceiver(ctx, "/queues/"+queue, &amqp.ReceiverOptions{Credit: 200})
	if err != nil {
		return err
	}
	for range 2 * n {
		message, err := receiver.Receive(ctx, nil)
		if err != nil {
			return err
		}
		if err := receiver.AcceptMessage(ctx, message); err != nil {
			return err
		}
	}
	figures["received"] = perMessage(2 * n)
	return json.NewEncoder(os.Stdout).Encode(figures)
}

// runCost reads the command line: cost URL QUEUE MESSAGES.
func runCost(words []string) error {
	n, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	return cost(words[0], words[1], n)
}
