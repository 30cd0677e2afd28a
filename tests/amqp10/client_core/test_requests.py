"""Requests to the management node: each answer goes to its own request, whichever were given up before."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client_core.errors import RequestRefused
from amqp10.client_core.message import Message
from amqp10.client_core.requests import Answer, Requests
from amqp10.wire.sections import AMQP_VALUE, Properties


def answered(request: bytes, status: object = "200", body: object = None) -> bytes:
    """The node's answer to an encoded request."""
    asked = Message.decode(request)
    assert asked.properties is not None
    about = Properties(correlation_id=asked.properties.message_id, subject=status)  # type: ignore[arg-type]
    return Message(body, properties=about, section=AMQP_VALUE).encode()


def test_a_request_looks_like_http():
    request = Message.decode(Requests("name").begin("PUT", "/queues/a%2Fb", {"durable": True}))
    assert request.properties == Properties(message_id="name-1", to="/queues/a%2Fb", subject="PUT", reply_to="$me")
    assert request.body == {"durable": True}


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=20))
def test_an_answer_goes_to_its_request_and_answers_to_those_given_up_need_link_credit_too(cases):
    """Each request is sent some times, as after a refused transfer, and is answered or given up."""
    requests, late = Requests("r"), []
    for number, (times, answered_in_time) in enumerate(cases):
        request = requests.begin("GET", f"/queues/{number}")
        before = requests.unanswered
        for time in range(times):
            assert requests.sending() == before + time + 1
        if not answered_in_time:
            late.append(answered(request, body=number))
            continue
        for entry in late:
            assert requests.answer(entry) is None
        late.clear()
        assert requests.answer(answered(request, body=number)) == Answer(200, number)
        assert 0 <= requests.unanswered < before + times


@pytest.mark.parametrize(
    ("status", "body", "text", "code"),
    [
        ("404", "there is no queue 'none'", "there is no queue 'none'", 404),
        ("405", None, "GET /queues/none was refused", 405),
        ("599", {"a": 1}, "GET /queues/none was refused", 599),
        (None, None, "the status None, which is none", 0),
        ("20", None, "the status '20', which is none", 0),
        ("２００", None, "which is none", 0),
    ],
)
def test_a_refusal_has_the_broker_s_words_where_it_has_some(status, body, text, code):
    requests = Requests("r")
    request = requests.begin("GET", "/queues/none")
    with pytest.raises(RequestRefused) as caught:
        requests.answer(answered(request, status, body))
    assert text in str(caught.value)
    assert caught.value.status == code


@given(st.binary(max_size=40))
def test_bytes_that_are_no_message_are_refused(noise):
    requests = Requests("r")
    requests.begin("GET", "/queues/q")
    with suppress(RequestRefused):
        assert requests.answer(noise) is None
