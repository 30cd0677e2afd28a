"""python-qpid-proton on links that an operator pauses, bounds and closes, from a connection of its own."""

from urllib.parse import quote

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

SENDS, RECEIVES = "link that sends", "link that receives"


def told(operator, peer):
    """What the client has read when the operator's next request, and one of the client's own, are answered."""
    operator.request("GET", "/headgate/status")
    peer.request("GET", "/queues/nowhere")


def path(operator, link):
    """The path of a link, from the broker's name of it."""
    rows = operator.request("GET", "/headgate/links").body["items"]
    (identity,) = {row["identity"] for row in rows if row["name"] == link.name and row["state"] == "ATTACHED"}
    return f"/headgate/links/{quote(identity, safe='')}"


def test_a_paused_receiver_gets_nothing_and_all_of_it_after_that(peer, connect, queue):
    operator = connect().opened()
    receiver = peer.receiver(queue, name=RECEIVES)
    peer.attached(receiver)
    where = path(operator, receiver)
    assert operator.request("PUT", f"{where}/pause").subject == "204"
    receiver.flow(10)
    peer.publish(queue, *range(5))
    told(operator, peer)
    assert peer.received.get(RECEIVES, []) == []
    assert receiver.credit == 10
    assert operator.request("GET", where).body["paused"] is True
    assert operator.request("DELETE", f"{where}/pause").subject == "204"
    assert [got.message.body for got in peer.take(receiver, 5)] == [0, 1, 2, 3, 4]
    assert receiver.credit == 5


def test_a_paused_sender_loses_its_link_credit_and_no_message(peer, connect, proton, queue):
    operator = connect().opened()
    sender = peer.sender(queue, name=SENDS)
    peer.until(lambda: sender.credit)
    where = path(operator, sender)
    deliveries = peer.send(sender, *(proton.Message(body=number) for number in range(50)))
    operator.request("PUT", f"{where}/pause")
    peer.until(lambda: sender.credit == 0, "the pause")
    peer.settled(deliveries)
    assert {delivery.remote_state for delivery in deliveries} == {proton.Delivery.ACCEPTED}
    operator.request("PUT", f"{where}/credit?max=7")
    operator.request("DELETE", f"{where}/pause")
    peer.until(lambda: sender.credit, "the bound")
    assert sender.credit == 7
    operator.request("DELETE", f"{where}/credit")
    peer.settled(peer.send(sender, *(proton.Message(body=number) for number in range(50, 60))))
    receiver = peer.receiver(queue, name=RECEIVES)
    receiver.flow(100)
    assert [got.message.body for got in peer.take(receiver, 60)] == list(range(60))


def test_a_slow_receiver_with_a_bound_leaves_the_others_the_rest(peer, connect, queue):
    operator, quick = connect().opened(), connect().opened()
    slow = peer.receiver(queue, name="slow")
    peer.attached(slow)
    where = path(operator, slow)
    assert operator.request("PUT", f"{where}/credit?max=5").subject == "204"
    slow.flow(1000)
    peer.publish(queue, *range(100))
    held = peer.take(slow, 5)
    other = quick.receiver(queue, name="quick")
    other.flow(1000)
    bodies = {got.message.body for got in quick.take(other, 95)}
    assert bodies == set(range(100)) - {got.message.body for got in held}
    told(operator, peer)
    row = operator.request("GET", where).body
    assert (row["unsettled"], row["unsettled_max"], row["bound_by_operator"]) == (5, 5, 5)
    assert row["link_credit"] > 900
    peer.publish(queue, "more")
    other.close()
    quick.closed(other)
    why = operator.request("GET", f"{where}/why").body
    assert (why["reason"], why["culprit"]) == ("policy", "operator")


def test_a_receiver_with_a_bound_in_bytes_of_its_own_leaves_the_others_the_rest(peer, connect, proton, queue):
    operator, quick = connect().opened(), connect().opened()
    bound = {proton.symbol("headgate:max-unsettled-bytes"): proton.ulong(2500)}
    slow = peer.receiver(queue, name="slow", properties=bound)
    peer.attached(slow)
    assert slow.remote_properties[proton.symbol("headgate:max-unsettled-bytes")] == 2500
    slow.flow(1000)
    peer.publish(queue, *(f"{number:4}" * 250 for number in range(20)))
    held = peer.take(slow, 2)
    other = quick.receiver(queue, name="quick", snd_settle_mode=proton.Link.SND_SETTLED)
    other.flow(1000)
    bodies = {got.message.body for got in quick.take(other, 18)}
    assert len(bodies | {got.message.body for got in held}) == 20
    told(operator, peer)
    where = path(operator, slow)
    row = operator.request("GET", where).body
    assert (row["unsettled"], row["unsettled_bytes_max"], row["bytes_bound_by"]) == (2, 2500, "client")
    assert 2000 < row["unsettled_bytes"] < 2500
    other.close()
    quick.closed(other)
    peer.publish(queue, "z" * 5000)
    why = operator.request("GET", f"{where}/why").body
    assert (why["reason"], why["culprit"]) == ("policy", "client")
    for got in held:
        got.delivery.update(proton.Delivery.ACCEPTED)
        got.delivery.settle()
    (large,) = peer.take(slow, 1)
    assert large.message.body == "z" * 5000, "a message above the bound comes alone"


@pytest.mark.parametrize("wrong", [0, -1, "many", 1.5])
def test_a_bound_in_bytes_that_is_not_a_positive_integer(peer, proton, queue, wrong):
    bound = {proton.symbol("headgate:max-unsettled-bytes"): wrong}
    receiver = peer.receiver(queue, name=RECEIVES, properties=bound)
    condition, description = peer.closed(receiver)
    assert condition == "amqp:invalid-field"
    assert "headgate:max-unsettled-bytes" in description


def test_a_bound_of_a_receiver_that_makes_no_sense(peer, connect, queue, proton):
    operator = connect().opened()
    settled = peer.receiver(queue, name=RECEIVES, snd_settle_mode=proton.Link.SND_SETTLED)
    peer.attached(settled)
    answer = operator.request("PUT", f"{path(operator, settled)}/credit?max=5")
    assert (answer.subject, "sends settled messages" in answer.body) == ("400", True)
    for wrong in ("0", "-1", "4294967296", "many", ""):
        answer = operator.request("PUT", f"{path(operator, settled)}/credit?max={wrong}")
        assert answer.subject == "400"


def test_a_link_that_an_operator_closes(peer, connect, queue):
    operator = connect().opened()
    receiver = peer.receiver(queue, name=RECEIVES)
    peer.attached(receiver)
    where = path(operator, receiver)
    assert operator.request("DELETE", f"{where}?reason=stuck").subject == "204"
    assert peer.closed(receiver) == ("amqp:link:detach-forced", "stuck")


def test_a_session_that_an_operator_closes(peer, connect, queue):
    operator = connect().opened()
    session = peer.session()
    receiver = peer.receiver(queue, name=RECEIVES, session=session)
    peer.attached(receiver)
    name = path(operator, receiver).rpartition("%2F")[0].replace("/links/", "/sessions/")
    assert operator.request("DELETE", f"{name}?reason=stuck").subject == "204"
    assert peer.closed(session) == ("amqp:link:detach-forced", "stuck")
