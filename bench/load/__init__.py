"""Load for any broker of AMQP 1.0 or 0.9.1, from processes of their own that share no code with the broker."""
