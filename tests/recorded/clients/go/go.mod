module headgate/recorded

go 1.25

require (
	github.com/Azure/go-amqp v1.7.0
	github.com/rabbitmq/amqp091-go v1.16.0
)
