"""An AMQP 1.0 client for asyncio and Trio: its public names. Begin with :func:`connect`.

It imports ``amqp10.client_core`` and the rooms below it, and nothing of ``core``. Begin reading with
``connection.py``.
"""

from amqp10.client.batch import SendBatch
from amqp10.client.connection import ClientConnection, connect
from amqp10.client.receipt import Receipt
from amqp10.client.receiver import Delivery, Receiver, ReceiverOptions
from amqp10.client.sender import Sender
from amqp10.client.session import ClientSession
from amqp10.client.settings import Backoff, ClientSettings
from amqp10.client_core.errors import (
    BadUrl,
    ClientError,
    ConnectionLost,
    LinkClosed,
    MessageTooLarge,
    NotEncrypted,
    NotLetIn,
    RequestRefused,
    SendTimedOut,
    SessionClosed,
    TimedOut,
    Unreachable,
)
from amqp10.client_core.message import Message
from amqp10.client_core.not_accepted import NotAccepted, RefusedMessage
from amqp10.client_core.outcomes import Fate, FateRange, Sent, Uncertain, Unsent
from amqp10.client_core.reasons import LinkWait
from amqp10.client_core.requests import Answer
from amqp10.client_core.url import Url
from amqp10.client_core.view import MessageView

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
    "SendBatch",
    "Receipt",
    "Fate",
    "FateRange",
    "Sent",
    "Unsent",
    "Uncertain",
    "LinkWait",
    "Receiver",
    "ReceiverOptions",
    "Delivery",
    "Answer",
    "ClientError",
    "BadUrl",
    "Unreachable",
    "NotEncrypted",
    "NotLetIn",
    "ConnectionLost",
    "SessionClosed",
    "LinkClosed",
    "MessageTooLarge",
    "RequestRefused",
    "TimedOut",
    "SendTimedOut",
    "NotAccepted",
    "RefusedMessage",
]
