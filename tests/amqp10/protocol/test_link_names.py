"""The table of link names: one link for a name and direction, and only that link frees the name [2.6.1]."""

from amqp10.protocol.connection import Connection
from amqp10.protocol.handshake import NoHandshake
from amqp10.protocol.link import RECEIVER, SENDER
from amqp10.protocol.link_names import LinkNames, NameOwner
from amqp10.protocol.settings import ConnectionSettings


def test_a_name_is_owned_claimed_and_freed():
    session = Connection(ConnectionSettings(container_id="c"), NoHandshake()).new_session()
    first, second = session.new_sender("orders"), session.new_sender("orders")
    names = LinkNames()
    assert names.claim("orders", SENDER) is None
    names.set_owner("orders", SENDER, session, first)
    assert names.claim("orders", RECEIVER) is None
    assert names.claim("orders", SENDER) == NameOwner(session, first)
    assert names.claim("orders", SENDER) is None
    names.set_owner("orders", SENDER, session, second)
    names.release("orders", SENDER, first)
    assert names.claim("orders", SENDER) == NameOwner(session, second)
    names.set_owner("orders", SENDER, session, second)
    names.release("orders", SENDER, second)
    names.release("orders", SENDER, second)
    assert names.claim("orders", SENDER) is None
