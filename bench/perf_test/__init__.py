"""``headgate bench`` beside RabbitMQ's PerfTest: both put the same load on one broker, and say the same of it."""
