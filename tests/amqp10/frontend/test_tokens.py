"""Tokens on open connections of AMQP 1.0: their end, and their renewal over the management node."""

from amqp10.wire.performatives import Close, Detach, Disposition
from core.access.login import Access
from core.access.token_keys import read_keys
from tests.kit.cases import case
from tests.kit.link_pair import LinkPair
from tests.kit.logins import Held
from tests.kit.tokens import NOW, ec_key, key_set, log_in, make_token, oauth2, token_access
from tests.kit.wire import InProcessBroker, WirePeer

LIFE = 10.0
"""How long the tokens live here: shorter than the time-out of a silent connection."""
RENEW = ("PUT", "/auth/tokens")


def connected(broker: InProcessBroker, access: Access, token: str) -> WirePeer:
    """A client that has logged in with this token."""
    peers: list[WirePeer] = []
    login = log_in(access, token, wake=lambda: [broker.touch(peer) for peer in peers])
    broker.rights = access.rights_of(login, "alice")
    peers.append(WirePeer(broker))
    peers[0].handshake()
    peers[0].open()
    peers[0].begin()
    return peers[0]


def place(token: str = "", access: Access | None = None) -> tuple[InProcessBroker, Access, WirePeer]:
    broker = InProcessBroker()
    broker.queue("a")
    broker.queue("b")
    access = access or token_access(wall=lambda: broker.now.wall)
    return broker, access, connected(broker, access, token or make_token(exp=NOW + LIFE))


@case("amqp_client_SUITE", "credential_expires")
def test_a_token_that_expires_closes_its_connection():
    """credential_expires (amqp_client_SUITE): close with unauthorized-access, at the time in the token."""
    broker, access, peer = place()
    other = connected(broker, access, make_token(exp=NOW + 2 * LIFE))
    peer.attach_sender("/queues/a")
    broker.advance(LIFE - 0.5)
    assert not peer.take(Close)
    broker.advance(1.0)
    (close,) = peer.take(Close)
    assert (close.error.condition, close.error.description) == ("amqp:unauthorized-access", "credential expired")
    peer.send(Close())
    assert not other.take(Close), "another connection of the same user"


def test_a_clock_that_is_set_back_and_forth():
    broker, _, peer = place()
    broker.now = broker.now._replace(wall=NOW - 5.0)
    broker.advance(LIFE + 4.0)
    assert not peer.take(Close)
    broker.advance(1.5)
    assert len(peer.take(Close)) == 1


def test_a_new_token_postpones_the_end():
    broker, _, peer = place()
    pair = LinkPair(peer).attach()
    broker.advance(LIFE - 1)
    assert pair.ask(*RENEW, make_token(exp=NOW + 2 * LIFE).encode()).status == 204
    broker.advance(LIFE - 1)
    assert not peer.take(Close)
    broker.advance(3)
    assert len(peer.take(Close)) == 1


def test_a_new_token_may_end_sooner():
    broker, _, peer = place()
    assert LinkPair(peer).attach().ask(*RENEW, make_token(exp=NOW + 5).encode()).status == 204
    broker.advance(5.5)
    assert len(peer.take(Close)) == 1


def test_a_new_token_with_fewer_scopes_detaches_at_once():
    _, access, peer = place()
    pair = LinkPair(peer).attach()
    peer.attach_receiver("/queues/a", handle=2, name="a")
    peer.attach_receiver("/queues/b", handle=3, name="b")
    peer.attach_sender("/queues/a", handle=4, name="p")
    assert pair.ask(*RENEW, make_token(scope="broker.read:*/b").encode()).status == 204
    detaches = peer.take(Detach)
    assert sorted(detach.handle for detach in detaches) == [2, 4]
    assert {detach.error.condition for detach in detaches} == {"amqp:unauthorized-access"}
    assert access.tokens.outcomes["accepted"] == 2


def test_a_new_token_without_any_right_closes_the_connection():
    _, _, peer = place()
    LinkPair(peer).attach().ask(*RENEW, make_token(scope="").encode())
    (close,) = peer.take(Close)
    assert close.error.description == "access to vhost '/' refused for user 'alice'"


def test_a_refused_token_answers_403_and_leaves_the_old_one():
    broker, _, peer = place()
    pair = LinkPair(peer).attach()
    for body, words in (
        (make_token(sub="bob").encode(), "of 'bob', not of 'alice'"),
        (make_token(exp=NOW - 5).encode(), "expired 5 s ago"),
        (b"nonsense", "not JSON"),
        (b"ey" * 10_000, "20000 bytes; oauth2.token_bytes_max is 16384"),
    ):
        answer = pair.ask(*RENEW, body)
        assert (answer.status, words in answer.body) == (403, True), answer.body
    assert pair.ask(*RENEW, "text").status == 400
    assert pair.ask("PUT", "/queues/new", {}).status == 201
    broker.advance(LIFE + 1)
    assert len(peer.take(Close)) == 1


def test_a_connection_without_a_token_has_none_to_replace():
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    answer = LinkPair(peer).attach().ask(*RENEW, make_token().encode())
    assert answer.status == 403
    assert "has not logged in with a token" in answer.body


def test_a_renewal_that_waits_for_keys_does_not_keep_the_broker_busy():
    """The answer waits, requests behind it too, and the broker comes to rest meanwhile (``run`` would fail)."""
    url = oauth2(jwks_file=None, jwks_url="https://login.example.org/keys")
    access = token_access(settings=url)
    broker, _, peer = place(access=access)
    pair = LinkPair(peer).attach()
    pair.grant(2)
    pair.send(*RENEW, make_token(ec_key("new")).encode())
    pair.send("PUT", "/queues/new", {})
    peer.attach_receiver("/queues/a", handle=2, name="a")
    assert not pair.take_answers()
    access.tokens.keys.fetched(read_keys(key_set(ec_key("new"))))
    broker.run()
    assert [answer.status for answer in pair.take_answers()] == [204, 201]


def test_a_client_that_leaves_during_its_renewal():
    held = Held()
    access = token_access()
    broker, _, peer = place(access=access)
    access.submit = held.submit
    pair = LinkPair(peer).attach()
    pair.grant(1)
    pair.send(*RENEW, make_token(scope="broker.read:*/b").encode())
    peer.send(Close())
    held.run()
    broker.run()
    assert peer.lost or peer.front_end.finished


def test_messages_to_a_topic_exchange_are_checked_by_key():
    broker = InProcessBroker()
    access = token_access(wall=lambda: broker.now.wall)
    peer = connected(broker, access, make_token(scope="broker.write:*/amq.topic/eu.*"))
    assert peer.attach_sender("/exchanges/amq.topic/eu.x", handle=1, name="eu").target is not None
    assert peer.attach_sender("/exchanges/amq.topic/us.x", handle=2, name="us").target is None
    (detach,) = peer.take(Detach)
    assert "write access to topic 'us.x' in exchange topic 'amq.topic'" in detach.error.description
    assert not peer.take(Disposition)
