"""Tokens on open connections of AMQP 0.9.1: their end, and connection.update-secret."""

import pytest

from core.access.login import Access
from core.access.token_keys import read_keys
from core.amqp091.methods import (
    ChannelClose,
    ConnectionClose,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.kit.tokens import NOW, ec_key, key_set, log_in, make_token, oauth2, token_access
from tests.kit.wire import InProcessBroker
from tests.kit.wire091 import Wire091Peer, connect

HOUR = 3600.0


def connected(broker: InProcessBroker, access: Access, token: str) -> Wire091Peer:
    """A client that has logged in with this token."""
    peers: list[Wire091Peer] = []
    login = log_in(access, token, wake=lambda: [broker.touch(peer) for peer in peers])
    broker.rights = access.rights_of(login, "alice")
    peers.append(connect(broker))
    return peers[0]


def place(token: str = "", access: Access | None = None) -> tuple[InProcessBroker, Access, Wire091Peer]:
    broker = InProcessBroker()
    broker.queue("a")
    access = access or token_access(wall=lambda: broker.now.wall)
    return broker, access, connected(broker, access, token or make_token())


def renewal(token: str | bytes) -> ConnectionUpdateSecret:
    return ConnectionUpdateSecret(new_secret=token if isinstance(token, bytes) else token.encode(), reason="old")


def test_a_token_that_expires_closes_its_connection():
    broker, _, peer = place()
    broker.advance(HOUR - 0.5)
    assert not peer.methods(ConnectionClose)
    broker.advance(1.0)
    (close,) = peer.methods(ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - credential expired")


def test_a_new_secret_postpones_the_end():
    broker, access, peer = place()
    broker.advance(HOUR - 1)
    peer.call(0, renewal(make_token(exp=NOW + 2 * HOUR)), ConnectionUpdateSecretOk)
    broker.advance(HOUR - 1)
    assert not peer.methods(ConnectionClose)
    broker.advance(3)
    assert len(peer.methods(ConnectionClose)) == 1
    assert access.tokens.outcomes["accepted"] == 2


def test_a_new_secret_with_fewer_scopes_takes_hold_at_once():
    _, _, peer = place()
    peer.consume("a")
    peer.take()
    peer.send(0, renewal(make_token(scope="broker.read:*/b broker.configure:*/b")))
    assert len(peer.methods(ConnectionUpdateSecretOk)) == 1
    (close,) = peer.methods(ChannelClose)
    assert close.reply_text.startswith(
        "ACCESS_REFUSED - read access to queue 'a' in vhost '/' refused for user 'alice'"
    )


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        (make_token(sub="bob"), "of 'bob', not of 'alice'"),
        (make_token(exp=NOW - 5), "expired 5 s ago"),
        (b"nonsense", "not JSON"),
        (b"ey" * 10_000, "20000 bytes"),
    ],
)
def test_a_new_secret_that_is_refused_closes_the_connection(secret: str | bytes, words: str):
    _, _, peer = place()
    peer.send(0, renewal(secret))
    (close,) = peer.methods(ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 70)
    assert close.reply_text.startswith("NOT_ALLOWED - New secret was refused")
    assert words in close.reply_text


def test_a_connection_without_a_token_is_answered_without_effect():
    peer = connect(InProcessBroker())
    peer.call(0, renewal(make_token()), ConnectionUpdateSecretOk)


def test_while_a_new_secret_waits_for_keys_nothing_else_is_read():
    url = oauth2(jwks_file=None, jwks_url="https://login.example.org/keys")
    access = token_access(settings=url)
    broker, _, peer = place(access=access)
    peer.consume("a")
    peer.take()
    peer.send(0, renewal(make_token(ec_key("new"))))
    peer.send(1, QueueDeclare(queue="c"))
    assert not peer.received, "neither the answer, nor that to what follows"
    access.tokens.keys.fetched(read_keys(key_set(ec_key("new"))))
    broker.run()
    assert [type(method) for _, method, _ in peer.take()] == [ConnectionUpdateSecretOk, QueueDeclareOk]
    assert peer.consume("a", consumer_tag="2") == "2"


def test_publishes_are_checked_by_routing_key():
    broker = InProcessBroker()
    access = token_access(wall=lambda: broker.now.wall)
    peer = connected(broker, access, make_token(scope="broker.write:*/amq.*/eu.*"))
    peer.publish(1, [b"x"], exchange="amq.topic", routing_key="eu.x")
    assert not peer.methods(ChannelClose)
    peer.publish(1, [b"x"], exchange="amq.direct", routing_key="us.x")
    assert not peer.methods(ChannelClose), "only topic exchanges have keys that are checked"
    peer.publish(1, [b"x"], exchange="amq.topic", routing_key="us.x")
    assert "write access to topic 'us.x'" in peer.methods(ChannelClose)[0].reply_text
