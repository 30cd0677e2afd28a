"""The rows of a connection, its sessions and links: plain values that agree with what happened."""

import pytest

from amqp10.frontend.snapshots import LINKS_PER_PART
from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import End
from core.errors import NotFound
from core.interface import Snapshot
from core.server.orders import PauseLink
from tests.kit.call_trace import traced_steps
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, numbered

CONNECTION_KEYS = {
    "identity", "protocol", "peer", "container_id", "user", "node", "vhost", "state", "sessions", "links",
    "frames_received", "frames_sent", "backlog_bytes", "alarms",
}  # fmt: skip


def only(rows: list[Snapshot]) -> Snapshot:
    (row,) = rows
    return row


def linked() -> tuple[InProcessBroker, WirePeer]:
    """A client that publishes at handle 0 and consumes at handle 1."""
    broker = InProcessBroker(
        make_settings(
            amqp10={"max_incoming_window": 50, "window_top_up": 20, "max_link_credit": 10, "link_credit_top_up": 5}
        )
    )
    address = broker.queue()
    peer = broker.connect()
    peer.begin(channel=2)
    peer.attach_sender(address, channel=2, name="out")
    peer.attach_receiver(address, channel=2, name="in")
    return broker, peer


def test_a_connection_before_its_open():
    peer = WirePeer(InProcessBroker())
    shown = only(peer.front_end.snapshot("connections", peer.broker.now))
    assert set(shown) == CONNECTION_KEYS
    assert (shown["container_id"], shown["state"], shown["sessions"], shown["user"]) == (None, "START", 0, "anonymous")


def test_a_connection():
    broker, peer = linked()
    broker.raise_alarm("memory")
    peer.front_end.output_backlog(77)
    shown = only(peer.front_end.snapshot("connections", peer.broker.now))
    assert set(shown) == CONNECTION_KEYS
    assert shown["identity"] == "test-0"
    assert shown["protocol"] == "amqp-1.0"
    assert shown["peer"] == "127.0.0.1:40000"
    assert (shown["container_id"], shown["user"], shown["state"]) == ("test", "guest", "OPENED")
    assert (shown["sessions"], shown["links"], shown["backlog_bytes"]) == (1, 2, 77)
    assert shown["alarms"] == ["memory"]


def test_a_session():
    broker, peer = linked()
    broker.fill(numbered(5))
    peer.grant(3, channel=2)
    for body in numbered(2):
        peer.transfer(body, channel=2)
    shown = only(peer.front_end.snapshot("sessions", peer.broker.now))
    assert (shown["identity"], shown["connection"], shown["channel"], shown["links"]) == ("test-0/2", "test-0", 2, 2)
    assert (shown["incoming_window"], shown["incoming_window_closed"], shown["next_incoming_id"]) == (48, False, 2)
    assert (shown["remote_incoming_window"], shown["next_outgoing_id"]) == (2**31 - 1 - 3, 3)
    assert (shown["unsettled_in"], shown["unsettled_out"]) == (0, 3)
    broker.stall()
    peer.transfer(b"x", channel=2)
    peer.dispose(0, 1, channel=2, state=ACCEPTED)
    shown = only(peer.front_end.snapshot("sessions", peer.broker.now))
    assert (shown["unsettled_in"], shown["unsettled_out"]) == (1, 1)
    broker.raise_alarm()
    shown = only(peer.front_end.snapshot("sessions", peer.broker.now))
    assert (shown["incoming_window"], shown["incoming_window_closed"]) == (0, True)


def test_links_in_both_directions():
    broker, peer = linked()
    broker.stall()
    peer.transfer(b"x", channel=2)
    peer.grant(40, channel=2)
    broker.advance(2.0)
    incoming, outgoing = peer.front_end.snapshot("links", peer.broker.now)
    common = {
        "session": "test-0/2",
        "connection": "test-0",
        "vhost": "/",
        "state": "ATTACHED",
        "drain": False,
        "client": None,
        "paused": False,
    }
    common |= {"queue": "q", "bound_by_policy": None, "drained": 0, "withdrawn": 0, "unbalanced": 0}
    assert incoming == common | {
        "identity": "test-0/2/0", "name": "out", "handle": 0, "direction": "in", "address": "/queues/q",
        "channel": 2, "remote_channel": 2, "remote_handle": 0,
        "link_credit": 9, "delivery_count": 1, "unconfirmed": 1, "max_link_credit": 10,
        "exchange": None, "unconfirmed_limit": 170, "unsynced": 0, "withheld": False, "withheld_for": None,
        "full_queue": None, "unsettled": 1, "unsettled_full": False,
        "bound_by_operator": None, "rate_limit": None,
        "round_trip_ms": None, "window": None, "weight": None, "used_per_second": None,
        "share_per_second": None, "limited_by": None,
        "bytes_held": None, "byte_budget": None,
        "granted": 10, "consumed": 1, "oldest_unsettled_seconds": 2.0,
    }  # fmt: skip
    assert outgoing == common | {
        "identity": "test-0/2/1", "name": "in", "handle": 1, "direction": "out", "address": "/queues/q",
        "channel": 2, "remote_channel": 2, "remote_handle": 1,
        "link_credit": 40, "delivery_count": 0, "waiting": 0, "queue_grant": 40,
        "active": True, "held_up_by": [], "idle": True, "available": None,
        "unsettled": 0, "unsettled_max": None, "bound_by_operator": None,
        "unsettled_bytes": None, "unsettled_bytes_max": None, "bytes_bound_by": None, "full_of_bytes": False,
        "granted": 40, "consumed": 0, "oldest_unsettled_seconds": None,
    }  # fmt: skip


def test_the_figures_of_links_for_metrics_are_those_of_their_rows():
    broker, peer = linked()
    peer.attach_receiver("/management", handle=5, channel=2, properties={"paired": True})
    broker.stall()
    peer.transfer(b"x", channel=2)
    peer.grant(40, channel=2)
    broker.advance(2.0)
    rows = peer.front_end.snapshot("links", broker.now)
    figures = peer.front_end.snapshot("link_figures", broker.now)
    assert [one.pop("address", None) for one in figures] == ["/queues/q", "q", None]
    assert figures == [{name: row[name] for name in one} for one, row in zip(figures, rows, strict=True)]
    assert (figures[0]["unconfirmed"], figures[0]["oldest_unsettled_seconds"]) == (1, 2.0)
    assert (figures[1]["granted"], figures[1]["link_credit"]) == (40, 40)


def test_a_link_that_is_attached_on_one_side_only():
    """Another link has no queue behind it."""
    _, peer = linked()
    session = peer.front_end.connection.sessions[0]
    session.new_receiver("half")
    peer.attach_receiver("/management", handle=5, channel=2, properties={"paired": True})
    half, management = peer.front_end.snapshot("links", peer.broker.now)[2:]
    assert (half["address"], half["state"], half["direction"]) == (None, "DETACHED", "in")
    assert half["remote_handle"] is None
    assert (management["address"], management["queue_grant"]) == ("/management", None)


def test_unknown_kinds_have_no_rows():
    _, peer = linked()
    assert peer.front_end.snapshot("queues", peer.broker.now) == []


def test_links_come_session_by_session_and_what_ended_meanwhile_harms_nothing():
    broker, peer = linked()
    peer.begin(channel=3)
    peer.attach_sender("/queues/q", channel=3, name="more")
    for kind in ("links", "link_figures"):
        assert [len(part) for part in peer.front_end.parts(kind, broker.now)] == [2, 1]
    parts = peer.front_end.parts("links", broker.now)
    assert len(next(parts)) == 2
    peer.send(End(), channel=3)
    assert sum(len(part) for part in parts) <= 1
    assert len(peer.front_end.snapshot("links", broker.now)) == 2


def test_many_links_come_in_parts_and_a_look_for_stalls_passes_over_publishers():
    broker, peer = linked()
    for handle in range(LINKS_PER_PART):
        peer.attach_sender("/queues/q", channel=2, handle=2 + handle, name=f"more-{handle}")
    for kind in ("links", "link_figures"):
        assert [len(part) for part in peer.front_end.parts(kind, broker.now)] == [LINKS_PER_PART, 2]
    assert sum(peer.front_end.look(broker.now)) == 1
    peer.detach(1, channel=2)
    assert sum(peer.front_end.look(broker.now)) == 0


def test_the_row_of_a_link_is_found_in_as_many_steps_beside_many_links_as_beside_one():
    broker, peer = linked()
    identity = str(peer.front_end.snapshot("links", broker.now)[-1]["identity"])

    def steps_to_find() -> int:
        with traced_steps() as steps:
            parts = list(peer.front_end.parts("links", broker.now, identity))
            peer.front_end.check(PauseLink(identity))
        assert [[row["identity"] for row in part] for part in parts] == [[identity]]
        return steps.total()

    alone = steps_to_find()
    for handle in range(100):
        peer.attach_sender("/queues/q", channel=2, handle=2 + handle, name=f"more-{handle}")
    assert steps_to_find() == alone


@pytest.mark.parametrize("identity", ["", "test-0", "test-0/2", "test-0/2/99", "test-0/x/1", "test-0/2/" + "9" * 5000])
def test_no_link_has_another_identity(identity):
    broker, peer = linked()
    assert list(peer.front_end.parts("links", broker.now, identity)) == []
    with pytest.raises(NotFound):
        peer.front_end.check(PauseLink(identity))
