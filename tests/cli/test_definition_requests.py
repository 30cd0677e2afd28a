"""Definitions go from one broker to another: an export of the second equals the export of the first.

The brokers are in this process. Requests to their management nodes are encoded and decoded as on a link.
"""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.cli.definition_requests import AppliedSteps, request_of, snapshots, take
from amqp10.client_core.errors import ConnectionLost, RequestRefused
from amqp10.client_core.requests import Answer
from amqp10.management.message import REQUEST_BYTES_MAX
from core.definitions_file import (
    KINDS,
    Action,
    Change,
    Document,
    Step,
    compare,
    from_snapshots,
    identity,
    read,
    steps,
    text,
    unknown_ends,
)
from core.engine.routing.topology import BUILT_IN_EXCHANGES
from core.interface import ExchangeType, QueueDeclaration
from core.store.definitions import PolicyDeclaration
from tests.kit.engine import binding, exchange, queue
from tests.kit.management import decode_answer, encode_request, respond
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker


class Link:
    """Stands for the requests of a connection, which breaks before the request with the number ``breaks_at``."""

    def __init__(self, broker: InProcessBroker, *, breaks_at: int | None = None) -> None:
        self._broker = broker
        self._left = breaks_at

    def request(self, method: str, path: str, body: object = None) -> Answer:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise ConnectionLost("the connection broke")
        broker = self._broker
        request = encode_request(method, path, body)
        answer = decode_answer(respond(broker.node, broker.engine, request, turn=broker.run))
        if answer.status >= 400:
            raise RequestRefused(str(answer.body), status=answer.status)
        return Answer(answer.status, answer.body)


def running(broker: InProcessBroker) -> Document:
    """The definitions of the broker, requested page by page."""
    found = from_snapshots(snapshots(Link(broker)))
    assert found.problems == []
    assert found.notes == []
    return found.document


def apply(
    broker: InProcessBroker, wanted: Document, *, delete_extra=False, keep_going=False, breaks_at=None
) -> AppliedSteps:
    """Apply definitions as the command does."""
    outcome = AppliedSteps()
    planned = steps(compare(wanted, running(broker)), delete_extra=delete_extra)
    take(Link(broker, breaks_at=breaks_at), planned, outcome, keep_going=keep_going, taken=lambda: None)
    return outcome


# --- round trips over any topology -----------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c/d", "é ☃", "%41", "work.eu"])
KEYS = st.sampled_from(["", "k", "a.*", "#", "ü/;="])
OWN = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | KEYS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=3,
)

queues = st.builds(
    QueueDeclaration,
    name=NAMES,
    durable=st.booleans(),
    auto_delete=st.booleans(),
    arguments=st.fixed_dictionaries(
        {},
        optional={
            "x-max-length": st.integers(0, 2**63 - 1),
            "x-overflow": st.sampled_from(["drop-head", "reject-publish"]),
            "x-queue-type": st.just("classic"),
            "own": OWN,
        },
    ),
) | st.builds(
    QueueDeclaration,
    name=NAMES,
    arguments=st.fixed_dictionaries(
        {"x-queue-type": st.sampled_from(["quorum", "stream"])}, optional={"x-max-length-bytes": st.integers(0, 9)}
    ),
)
exchanges = st.builds(
    exchange, NAMES, st.sampled_from(ExchangeType), auto_delete=st.booleans(), internal=st.booleans(), own=OWN
)
policies = st.builds(
    PolicyDeclaration,
    name=NAMES,
    pattern=st.sampled_from(["", "^a", "é$"]),
    priority=st.integers(-5, 5),
    apply_to=st.sampled_from(["all", "queues", "exchanges"]),
    definition=st.fixed_dictionaries({"max-length": st.integers(0, 9)}, optional={"expires": st.integers(1, 9)}),
)


def once(things: Iterable[object]) -> list[object]:
    return list({identity(thing): thing for thing in things}.values())


@st.composite
def documents(draw: Callable[..., object]) -> Document:
    """Documents whose bindings have their ends in the document."""
    made = once(draw(st.lists(exchanges, max_size=4)))
    kept = once(draw(st.lists(queues, max_size=4)))
    sources = st.sampled_from([*(one.name for one in made), "amq.topic", "amq.headers"])
    ends = [(one.name, False) for one in made] + [(one.name, True) for one in kept]
    bindings = []
    if ends:
        for source, (end, to_queue), key, own in draw(
            st.lists(st.tuples(sources, st.sampled_from(ends), KEYS, st.none() | OWN), max_size=6)
        ):
            own = {} if own is None else {"own": own}
            bindings.append(binding(source, end, key, to_exchange=not to_queue, **own))
    return Document(
        exchanges=made, queues=kept, bindings=once(bindings), policies=once(draw(st.lists(policies, max_size=3)))
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(documents(), documents())
def test_export_and_apply_make_an_equal_broker(wanted, before):
    first = InProcessBroker(durable=True)
    outcome = apply(first, wanted)
    assert outcome.failed == []
    file = text(running(first), version="1")

    found = read(file.encode())
    assert (found.problems, found.notes) == ([], [])
    second = InProcessBroker(durable=True)
    apply(second, before)
    differences = compare(found.document, running(second))
    apply(second, found.document, delete_extra=True, keep_going=True)
    if not any(one.change is Change.CONFLICT for one in differences):
        assert text(running(second), version="1") == file
        assert apply(second, found.document, delete_extra=True).done == []


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(documents(), st.integers(0, 12))
def test_an_interrupted_apply_is_completed_by_another_one(wanted, requests):
    broker = InProcessBroker(durable=True)
    try:
        apply(broker, wanted, breaks_at=requests)
    except ConnectionLost:
        apply(broker, wanted)
    assert {one.change for one in compare(wanted, running(broker))} <= {Change.UNCHANGED}


# --- single cases ----------------------------------------------------------------------------------------------------


def test_queues_that_end_with_their_connection_are_not_exported():
    broker = InProcessBroker()
    broker.engine.declare_queue(queue("mine", exclusive=True, durable=False), "me")
    broker.engine.declare_queue(queue("amq.gen-x", durable=False), "me", named_by_broker=True)
    broker.engine.declare_dynamic_queue("amq.dyn-1", "me")
    broker.engine.declare_queue(queue("kept"), "me")
    for name in ("mine", "amq.gen-x", "amq.dyn-1", "kept"):
        broker.engine.bind(binding("amq.topic", name), "me")
    broker.engine.bind(binding("amq.topic", "amq.fanout", to_exchange=True), "me")
    assert running(broker).things() == [
        queue("kept"),
        binding("amq.topic", "amq.fanout", to_exchange=True),
        binding("amq.topic", "kept"),
    ]


def test_a_failure_ends_it_or_the_rest_goes_on():
    wanted = Document(queues=[queue(name) for name in "abc"], policies=[policy()])
    settings = make_settings(engine={"queues_max": 1})
    broker = InProcessBroker(settings)
    stopped = apply(broker, wanted)
    assert stopped.done == [Step(Action.DECLARE, queue("a"))]
    ((step, why),) = stopped.failed
    assert (step.thing, "the limit of 1 queues (queues_max) is reached" in why) == (queue("b"), True)

    went_on = apply(broker, wanted, keep_going=True)
    assert [step.thing for step in went_on.done] == [policy()]
    assert [step.thing for step, _ in went_on.failed] == [queue("b"), queue("c")]


def test_a_declaration_that_fits_in_no_request_is_reported_and_not_sent():
    long = queue("long", own="x" * REQUEST_BYTES_MAX)
    broker = InProcessBroker()
    ((_, why),) = apply(broker, Document(queues=[long])).failed
    assert f"a request has at most {REQUEST_BYTES_MAX}; shorten them" in why
    assert running(broker).queues == []


def test_a_deletion_of_something_that_is_gone_is_done():
    link = Link(InProcessBroker())
    outcome = AppliedSteps()
    gone = [policy(), binding("amq.topic", "gone"), queue("gone"), exchange("gone")]

    planned = [Step(Action.DELETE, thing) for thing in gone]
    take(link, planned, outcome, keep_going=False, taken=lambda: None)
    assert ([step.thing for step in outcome.done], outcome.failed) == (gone, [])


def test_bindings_that_differ_in_arguments_only_are_deleted_one_by_one():
    broker = InProcessBroker()
    both = [binding("amq.headers", "q", "", kind="a"), binding("amq.headers", "q", "", kind="b")]
    apply(broker, Document(queues=[queue("q")], bindings=both))
    apply(broker, Document(queues=[queue("q")], bindings=both[1:]), delete_extra=True)
    assert running(broker).bindings == both[1:]


def test_many_things_are_asked_for_in_pages():
    broker = InProcessBroker()
    for number in range(1001):
        broker.engine.declare_queue(queue(f"q{number:04}"), "me")
    assert len(running(broker).queues) == 1001


def test_things_too_large_for_one_page_are_asked_for_in_smaller_ones():
    broker = InProcessBroker()
    for number in range(60):
        broker.engine.declare_queue(queue(f"q{number:04}", own="x" * 100_000), "me")
    assert len(running(broker).queues) == 60


def test_every_kind_is_asked_for_and_every_action_has_a_request():
    assert KINDS == ("exchanges", "queues", "bindings", "policies")
    for thing in (exchange("a/b"), queue("a/b"), binding("a/b", "c"), policy()):
        assert {request_of(Step(action, thing))[0] for action in Action} in ({"PUT", "DELETE"}, {"POST", "DELETE"})


def test_ends_may_be_built_in():
    assert (
        unknown_ends(
            Document(bindings=[binding(name, "q") for name in BUILT_IN_EXCHANGES], queues=[queue("q")]), Document()
        )
        == []
    )


def policy() -> PolicyDeclaration:
    return PolicyDeclaration(name="p", pattern="", definition={"max-length": 5})
