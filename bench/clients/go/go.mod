module headgate/bench/clients

go 1.25

require (
	github.com/Azure/go-amqp v1.7.0
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/rabbitmq/amqp091-go v1.16.0
	golang.org/x/sys v0.36.0
)
