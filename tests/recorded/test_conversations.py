"""The broker says to each client, byte for byte, what it said when the conversation was recorded.

docs/testing.md says how to record anew, and when.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kit.broker_process import BrokerAddress
from tests.recorded.comparison import Comparison, ConversationDiffers
from tests.recorded.conversation import Conversation, path_of
from tests.recorded.fields import method_of, performative_code
from tests.recorded.masks import MASKS, TIME, masked_in
from tests.recorded.pacer import Pacer
from tests.recorded.record import CLIENTS, paced_broker
from tests.recorded.replay import replay

SHORT_FRAME_BYTES = 600
SOME = 16
CHANGES_MIN = 500


@dataclass(frozen=True, slots=True)
class PacedBroker:
    """A broker process, and the pacer that is connected to it."""

    address: BrokerAddress
    pacer: Pacer


@pytest.fixture(scope="module")
def broker() -> Iterator[PacedBroker]:
    """One broker for all conversations: each has queues of its own."""
    with paced_broker() as (address, pacer):
        yield PacedBroker(address, pacer)


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_the_broker_says_what_was_recorded(broker: PacedBroker, client: str):
    conversation = Conversation.load(path_of(client))
    said = replay(conversation, broker.address.host, broker.address.port, broker.pacer.pace)
    assert [len(one.steps) for one in said.connections] == [len(one.steps) for one in conversation.connections]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_one_changed_byte_is_found(client: str):
    """Outside of what is masked, one bit is changed: in each byte of the first short frame of a kind, and in some bytes
    of every other frame."""
    kinds: set[object] = set()
    changed = 0
    for comparison, frames in answers(client):
        for number, frame in enumerate(frames):
            kind = method_of(frame) or performative_code(frame)
            every = 1 if kind not in kinds and len(frame) <= SHORT_FRAME_BYTES else max(1, len(frame) // SOME)
            kinds.add(kind)
            masked = {at for one in masked_in(frame) for at in range(one.place.start, one.place.end)}
            for at in set(range(number % every, len(frame), every)) - masked:
                with pytest.raises(ConversationDiffers):
                    comparison.compare([frame], [with_byte(frame, at, frame[at] ^ 1 << at % 8)], "a changed byte")
                changed += 1
    assert changed > CHANGES_MIN


@pytest.mark.parametrize("client", CLIENTS)
def test_a_missing_and_an_added_frame_are_found(client: str):
    for comparison, frames in answers(client):
        comparison.compare(frames, frames, "the same")
        for number in range(len(frames)):
            with pytest.raises(ConversationDiffers):
                comparison.compare(frames, frames[:number] + frames[number + 1 :], "one is missing")
            with pytest.raises(ConversationDiffers):
                comparison.compare(frames, frames[: number + 1] + frames[number:], "one comes twice")


def answers(client: str) -> Iterator[tuple[Comparison, list[bytes]]]:
    """The recorded frames of the broker, step by step."""
    for connection in Conversation.load(path_of(client)).connections:
        comparison = Comparison(connection.steps[0].client, {})
        for step in connection.steps:
            frames, rest = comparison.frames(step.broker)
            assert not rest
            if frames:
                yield comparison, frames


def test_each_mask_is_needed_and_holds_for_its_form_only():
    """A value of the mask's form is taken for another one, and a value of another form is found."""
    used: set[str] = set()
    for client in CLIENTS:
        for _, frames in answers(client):
            for frame in frames:
                for one in masked_in(frame):
                    used.add(one.mask.name)
                    start = one.place.start
                    another = ord("1") if frame[start] == ord("0") else ord("0")
                    comparison = Comparison(b"", {})  # a new one, which knows no generated value
                    comparison.compare([frame], [with_byte(frame, start, another)], "another value")
                    if one.mask.form is not TIME:  # any eight bytes are a time
                        with pytest.raises(ConversationDiffers):
                            comparison.compare([frame], [with_byte(frame, start, ord("~"))], "another form")
    assert used == {mask.name for mask in MASKS}


def with_byte(frame: bytes, at: int, byte: int) -> bytes:
    return frame[:at] + bytes([byte]) + frame[at + 1 :]
