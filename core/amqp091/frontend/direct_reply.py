"""Direct reply-to: a client gets the answers to its requests without declaring a queue.

The client consumes from the pseudo-queue ``amq.rabbitmq.reply-to`` and publishes requests with this name as
``reply-to``. The broker replaces it by the name of an exclusive queue, which cannot be guessed and is deleted with its
consumer. The replier publishes to the default exchange with that name as the routing key, on either protocol.
"""

DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"

PREFIX = DIRECT_REPLY_TO + "."


def reply_queue_name(unique: str) -> str:
    """The name of a queue for direct replies."""
    return PREFIX + unique


def is_reply_queue(name: str) -> bool:
    """True for the name of a queue for direct replies."""
    return name.startswith(PREFIX)
