"""A Trio client for AMQP 1.0: its public names. Begin with :func:`connect`.

It imports ``amqp10.wire``, ``amqp10.flow`` and ``amqp10.protocol``, and nothing of ``core``. Begin reading with
``connection.py``.
"""

from amqp10.client.connection import ClientConnection, connect
from amqp10.client.errors import (
    BadUrl,
    ClientError,
    ConnectionLost,
    LinkClosed,
    MessageTooLarge,
    NotLetIn,
    RequestRefused,
    SessionClosed,
    TimedOut,
    Unreachable,
)
from amqp10.client.management import Answer
from amqp10.client.message import Message
from amqp10.client.receipt import Fate, FateRange, Receipt, Sent, Uncertain, Unsent
from amqp10.client.receiver import Delivery, Receiver, ReceiverOptions
from amqp10.client.sender import Sender
from amqp10.client.session import ClientSession
from amqp10.client.settings import Backoff, ClientSettings
from amqp10.client.url import Url
from amqp10.client.view import MessageView

__all__ = [
    "connect",
    "ClientConnection",
    "ClientSession",
    "ClientSettings",
    "Backoff",
    "Url",
    "Message",
    "MessageView",
    "Sender",
    "Receipt",
    "Fate",
    "FateRange",
    "Sent",
    "Unsent",
    "Uncertain",
    "Receiver",
    "ReceiverOptions",
    "Delivery",
    "Answer",
    "ClientError",
    "BadUrl",
    "Unreachable",
    "NotLetIn",
    "ConnectionLost",
    "SessionClosed",
    "LinkClosed",
    "MessageTooLarge",
    "RequestRefused",
    "TimedOut",
]
