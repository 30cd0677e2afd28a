"""The replay of a conversation finds what differs, and gives the client's bytes the generated values of the replay.

The broker here is a thread that says what was recorded, or something else.
"""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.recorded.comparison import ConversationDiffers
from tests.recorded.conversation import Conversation, RecordedConnection, Step, path_of
from tests.recorded.fields import split_frames
from tests.recorded.replay import replay

ANSWER_SECONDS = 10.0
DYNAMIC = re.compile(rb"amq\.dyn-recorded-proton-dynamic-([0-9a-f]{24})")


@pytest.fixture(scope="module")
def recorded() -> Conversation:
    """The first connections of a conversation with a dynamic node."""
    return Conversation.load(path_of("proton"))


@contextmanager
def said(connections: list[RecordedConnection]) -> Iterator[int]:
    """A broker that reads what was recorded and says what was recorded; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    read: list[bytes] = []

    def serve() -> None:
        for one in connections:
            accepted, _ = listener.accept()
            with accepted:
                for step in one.steps:
                    came = b""
                    while len(came) < len(step.client):
                        if not (data := accepted.recv(len(step.client) - len(came))):
                            return
                        came += data
                    read.append(came)
                    accepted.sendall(step.broker)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(ANSWER_SECONDS)
        listener.close()
    assert not thread.is_alive()
    expected = [step.client for one in connections for step in one.steps]
    assert read == expected[: len(read)], "the replay sent something else than the client"


def replayed(recorded: Conversation, broker: list[RecordedConnection]) -> Conversation:
    """A replay against a broker that says this."""
    with said(broker) as port:
        return replay(recorded, "127.0.0.1", port, lambda: None, ANSWER_SECONDS)


def changed(recorded: Conversation, change: Callable[[list[bytes]], list[bytes]]) -> list[RecordedConnection]:
    """The connections with other frames in the last answer of the last connection."""
    *others, last = recorded.connections
    *steps, step = last.steps
    frames, _ = split_frames(step.broker, is_091=False)
    steps = [*steps, Step(step.client, b"".join(change(frames)))]
    return [*others, RecordedConnection(steps, last.broker_closes)]


def test_the_same_bytes_are_the_same(recorded: Conversation):
    assert replayed(recorded, recorded.connections).connections == recorded.connections


@pytest.mark.parametrize(
    "change",
    [
        lambda frames: [*frames[:-1], frames[-1][:-1] + bytes([frames[-1][-1] ^ 1])],
        lambda frames: frames[:-1],
        lambda frames: [*frames, frames[-1]],
        lambda frames: [*frames, frames[-1][:5]],
    ],
    ids=["a changed byte", "a frame less", "a frame more", "a part of a frame more"],
)
def test_a_difference_in_the_last_answer_is_found(recorded: Conversation, change: Callable[[list[bytes]], list[bytes]]):
    with pytest.raises(ConversationDiffers):
        replayed(recorded, changed(recorded, change))


def test_another_generated_name_is_used_from_then_on(recorded: Conversation):
    """The name stands in the broker's bytes first, and in the client's after that."""
    text = b"".join(step.broker for one in recorded.connections for step in one.steps)
    found = DYNAMIC.search(text)
    assert found is not None
    old, new = found[1], bytes(reversed(found[1]))

    def renamed(step: Step) -> Step:
        return Step(step.client.replace(old, new), step.broker.replace(old, new))

    broker = [RecordedConnection([*map(renamed, one.steps)], one.broker_closes) for one in recorded.connections]
    assert broker != recorded.connections
    assert replayed(recorded, broker).connections == broker


def test_a_generated_name_must_stay_what_it_is(recorded: Conversation):
    """The broker gives a new name in the source of one attach, and the recorded one where it repeats the name."""
    found = DYNAMIC.search(b"".join(step.broker for one in recorded.connections for step in one.steps))
    assert found is not None
    old, new = found[1], bytes(reversed(found[1]))
    renamed = False
    broker = []
    for one in recorded.connections:
        steps = []
        for step in one.steps:
            first = not renamed and old in step.broker
            client = step.client.replace(old, new) if renamed else step.client
            steps.append(Step(client, step.broker.replace(old, new, 1) if first else step.broker))
            renamed = renamed or first
        broker.append(RecordedConnection(steps, one.broker_closes))
    with pytest.raises(ConversationDiffers, match="attach"):
        replayed(recorded, broker)
