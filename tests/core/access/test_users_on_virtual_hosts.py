"""Users and tokens on two virtual hosts, over both protocols: which they may enter, one count of what they have open,
renewal, and the deletion of a virtual host."""

import gc
import weakref
from dataclasses import dataclass, field

import pytest

from amqp10.wire.performatives import Close
from core.access.limits import MAX_CHANNELS, MAX_CONNECTIONS
from core.access.login import Access
from core.access.records import UserRecord
from core.access.rights import FULL, Rights
from core.amqp091.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpenOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    QueueDeclare,
    QueueDeclareOk,
)
from core.virtual_hosts import VIRTUAL_HOST
from tests.kit.link_pair import LinkPair
from tests.kit.logins import from_here
from tests.kit.tokens import NOW, log_in, make_token, token_access
from tests.kit.wire import InProcessBroker, WirePeer
from tests.kit.wire091 import Wire091Peer

AnyWire = WirePeer | Wire091Peer
ON_B = "broker.configure:b/* broker.read:b/* broker.write:b/*"
ON_DEFAULT = "broker.configure:%2F/* broker.read:%2F/* broker.write:%2F/*"
PROTOCOLS = ("amqp10", "amqp091")
both = pytest.mark.parametrize("protocol", PROTOCOLS)


@dataclass
class Place:
    """A broker with the virtual hosts / and b, whose users and tokens are those of ``access``."""

    broker: InProcessBroker = field(default_factory=InProcessBroker)
    access: Access = field(init=False)

    def __post_init__(self) -> None:
        self.access = token_access(wall=lambda: self.broker.now.wall)
        users, hosts = self.access.users, self.broker.control.hosts
        users.virtual_hosts = lambda: hosts.names
        hosts.closing, hosts.forget_rights = users.close_virtual_host, users.forget_virtual_host
        hosts.add("b")

    def set_user(self, name: str, *hosts: str, **limits: int) -> None:
        """Make a user with all permissions on these virtual hosts."""
        permissions = dict.fromkeys(hosts, FULL)
        self.access.users.set(UserRecord(name=name, permissions=permissions, limits=limits))

    def user(self, protocol: str, name: str, host: str = VIRTUAL_HOST) -> AnyWire:
        """A client of a user that has asked for a virtual host."""
        return self._client(protocol, self.access.rights_of(from_here(), name), host)

    def token(self, protocol: str, scope: str, host: str = VIRTUAL_HOST, **claims: object) -> AnyWire:
        """A client of alice, with a token of this scope, that has asked for a virtual host."""
        login = log_in(self.access, make_token(scope=scope, **claims), wake=lambda: self._touch_all())
        return self._client(protocol, self.access.rights_of(login, "alice"), host)

    def renew(self, peer: AnyWire, token: str) -> bool:
        """Show a new token. Returns whether it was accepted."""
        if isinstance(peer, WirePeer):
            return LinkPair(peer).attach().ask("PUT", "/auth/tokens", token.encode()).status == 204
        peer.send(0, ConnectionUpdateSecret(new_secret=token.encode(), reason="old"))
        return len(peer.methods(ConnectionUpdateSecretOk)) == 1

    def refused_entries(self) -> list[tuple[str, str]]:
        """Take the audit records of refused entries: user and reason of each."""
        records = self.broker.audited.taken()
        return [(one["user"], one["reason"]) for one in records if (one["action"], one["result"]) == ENTRY]

    def _client(self, protocol: str, rights: Rights, host: str) -> AnyWire:
        self.broker.rights = rights
        if protocol == "amqp10":
            peer = WirePeer(self.broker)
            peer.handshake()
            peer.open(hostname=f"vhost:{host}")
            if not peer.lost and not any(isinstance(frame[1], Close) for frame in peer.frames):
                peer.begin()
            return peer
        old = Wire091Peer(self.broker)
        old.negotiate(host)
        if old.methods(ConnectionOpenOk):
            old.send(1, ChannelOpen())
            old.methods(ChannelOpenOk)
        return old

    def _touch_all(self) -> None:
        for peer in self.broker.peers:
            self.broker.touch(peer)


ENTRY = ("connect", "refused")


def end(peer: AnyWire) -> tuple[object, str] | None:
    """Condition or code, and text, of the close that the client got; None for a connection that is open."""
    if isinstance(peer, WirePeer):
        closes = peer.take(Close)
        return (str(closes[0].error.condition), closes[0].error.description) if closes else None
    old = peer.methods(ConnectionClose)
    return (old[0].reply_code, old[0].reply_text.partition(" - ")[2]) if old else None


def may_declare(peer: AnyWire, name: str) -> bool:
    """Whether an open connection may declare a queue."""
    if isinstance(peer, WirePeer):
        pair = LinkPair(peer, handle=20, name="another")
        return pair.attach().ask("PUT", f"/queues/{name}", {}).status == 201
    peer.send(1, QueueDeclare(queue=name))
    return len(peer.methods(QueueDeclareOk)) == 1


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_users_limit_holds_for_all_virtual_hosts_and_protocols_together():
    place = Place()
    place.set_user("shop", "/", "b", **{MAX_CONNECTIONS: 2})
    first, second = place.user("amqp10", "shop"), place.user("amqp091", "shop", "b")
    assert (end(first), end(second)) == (None, None)
    for protocol in PROTOCOLS:
        for host in ("/", "b"):
            assert "limit (2) is reached" in end(place.user(protocol, "shop", host))[1]
    first.disconnect()
    assert end(place.user("amqp091", "shop", "b")) is None
    assert place.access.users.limits_of("shop").connections == 2


def test_a_limit_on_channels_counts_those_on_another_virtual_host():
    place = Place()
    place.set_user("shop", "/", "b", **{MAX_CHANNELS: 1})
    place.user("amqp10", "shop")
    assert "user limit of (1)" in end(place.user("amqp091", "shop", "b"))[1]


@both
def test_a_token_counts_for_the_user_of_its_name(protocol: str):
    place = Place()
    place.set_user("alice", "/", "b", **{MAX_CONNECTIONS: 1})
    with_token = place.token(protocol, ON_B, "b")
    assert end(with_token) is None
    assert "limit (1) is reached" in end(place.token(protocol, ON_DEFAULT))[1]
    assert "limit (1) is reached" in end(place.user(protocol, "alice", "b"))[1]
    with_token.disconnect()
    assert end(place.user(protocol, "alice", "b")) is None


def test_a_limit_that_comes_later_counts_the_connections_of_tokens_from_before():
    place = Place()
    place.token("amqp10", ON_B, "b")
    place.token("amqp091", ON_DEFAULT)
    place.set_user("alice", **{MAX_CONNECTIONS: 2})
    assert "limit (2) is reached" in end(place.token("amqp10", ON_DEFAULT))[1]
    place.access.users.delete("alice")
    assert end(place.token("amqp10", ON_DEFAULT)) is None, "with the user its limits are gone"


def test_nothing_is_kept_of_a_name_that_only_tokens_had():
    access = token_access()
    rights = access.rights_of(log_in(access, make_token()), "alice")
    limits = weakref.ref(rights.limits)
    assert rights.on("b").limits is rights.limits
    del rights
    gc.collect()
    assert limits() is None


# --- entering --------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("scope", "host", "other"), [(ON_B, "b", "/"), (ON_DEFAULT, "/", "b")])
def test_a_token_of_one_virtual_host_enters_that_one_only(protocol: str, scope: str, host: str, other: str):
    place = Place()
    peer = place.token(protocol, scope, host)
    assert end(peer) is None
    assert may_declare(peer, "q")
    names = [row["name"] for row in place.broker.control.hosts.named(host).snapshot("queues")]
    assert names == ["q"]
    assert place.refused_entries() == []
    why = f"access to vhost '{other}' refused for user 'alice'"
    refused = "amqp:unauthorized-access" if protocol == "amqp10" else 530
    assert end(place.token(protocol, scope, other)) == (refused, why)
    assert place.refused_entries() == [("alice", why)]


@both
def test_a_user_without_permission_on_a_virtual_host_is_in_the_audit_log(protocol: str):
    place = Place()
    place.set_user("shop", "/")
    why = "access to vhost 'b' refused for user 'shop'"
    assert end(place.user(protocol, "shop", "b"))[1] == why
    assert place.refused_entries() == [("shop", why)]


def test_the_rights_of_an_expired_token_are_none_on_another_virtual_host_too():
    place = Place()
    rights = place.access.rights_of(log_in(place.access, make_token(exp=NOW + 5)), "alice")
    assert rights.on("b").may("read", "q")
    place.broker.advance(6.0)
    rights.tick(place.broker.now)
    assert not rights.on("b").may("read", "q")


# --- renewal ---------------------------------------------------------------------------------------------------------


@both
def test_a_new_token_changes_the_rights_on_the_connections_own_virtual_host(protocol: str):
    place = Place()
    peer = place.token(protocol, ON_B, "b", exp=NOW + 5)
    assert place.renew(peer, make_token(scope=f"broker.configure:b/new* {ON_DEFAULT}", exp=NOW + 8))
    assert may_declare(peer, "newer")
    place.broker.advance(6.0)
    assert end(peer) is None
    assert [row["name"] for row in place.broker.control.hosts.named("b").snapshot("queues")] == ["newer"]
    place.broker.advance(3.0)
    assert end(peer)[1] == "credential expired"


@both
def test_a_new_token_without_a_scope_for_the_virtual_host_ends_the_connection(protocol: str):
    place = Place()
    peer, other = place.token(protocol, ON_B, "b"), place.token(protocol, ON_B, "b")
    assert place.renew(peer, make_token(scope=ON_DEFAULT))
    assert end(peer)[1] == "access to vhost 'b' refused for user 'alice'"
    assert end(other) is None


# --- deletion --------------------------------------------------------------------------------------------------------


@both
def test_the_deletion_of_a_virtual_host_closes_connections_of_tokens_and_users(protocol: str):
    place = Place()
    place.set_user("shop", "/", "b")
    there = [place.token(protocol, ON_B, "b"), place.user(protocol, "shop", "b")]
    here = [place.token(protocol, ON_DEFAULT), place.user(protocol, "shop")]
    hosts = place.broker.control.hosts
    hosts.delete("b")
    place.broker.run()
    forced = "amqp:connection:forced" if protocol == "amqp10" else 320
    assert [end(peer) for peer in there] == [(forced, "vhost 'b' was deleted")] * 2
    assert [end(peer) for peer in here] == [None, None]
    place.broker.advance(1.0)
    assert hosts.names == ["/"]
    hosts.add("b")
    assert end(place.token(protocol, ON_B, "b")) is None, "of a token, which names it still"
    assert end(place.user(protocol, "shop", "b"))[1] == "access to vhost 'b' refused for user 'shop'"


def test_a_renewal_gives_no_rights_on_a_virtual_host_that_is_gone():
    place = Place()
    rights = place.access.rights_of(log_in(place.access, make_token()), "alice", "b")
    assert rights.may("read", "q")
    place.access.users.close_virtual_host("b")
    assert rights.renewed(make_token().encode()).reply == ("success", b"alice")
    assert not rights.may("read", "q")
    assert rights.refusal() == "vhost 'b' was deleted"
