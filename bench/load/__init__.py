"""Load for any AMQP 1.0 broker, from processes of their own that share no code with the broker."""
