"""Prints in which frames of the broker two recordings of one client differ."""

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

from tests.recorded.comparison import Comparison, described
from tests.recorded.conversation import Conversation
from tests.recorded.masks import masked_in, without_masked

UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Some clients make up container ids, link names and message-ids, which the broker repeats."""


def broker_frames(conversation: Conversation) -> list[tuple[str, bytes]]:
    """Each frame of the broker with its place, without what is masked.

    A generated value is replaced by its number among those of the same mask, and so is a UUID of the client.
    """
    generated: dict[bytes, bytes] = {}
    numbers: Counter[str] = Counter()
    frames = []
    for number, connection in enumerate(conversation.connections):
        comparison = Comparison(connection.steps[0].client, generated)
        for step_number, step in enumerate(connection.steps):
            for frame in comparison.frames(step.broker)[0]:
                masked = masked_in(frame)
                for one in masked:
                    value = one.value(frame)
                    if one.mask.generated and value not in generated:
                        generated[value] = b"%0*d" % (len(value), numbers[one.mask.name])
                        numbers[one.mask.name] += 1
                for value in UUID.findall(frame):
                    if value not in generated:
                        generated[value] = b"%0*d" % (len(value), numbers["UUID"])
                        numbers["UUID"] += 1
                once = [one for one in masked if not one.mask.generated]
                frames.append((f"{number}.{step_number}", comparison.as_of_replay(without_masked(frame, once))))
    return frames


def differences(first: Conversation, today: Conversation) -> Iterator[str]:
    """A line for each frame that only one of the two has: ``-`` for the first, ``+`` for today's."""
    old, new = broker_frames(first), broker_frames(today)
    matcher = SequenceMatcher(None, [frame for _, frame in old], [frame for _, frame in new], autojunk=False)
    for operation, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if operation == "equal":
            continue
        for sign, part in (("-", old[old_start:old_end]), ("+", new[new_start:new_end])):
            for place, frame in part:
                yield f"{sign} {place}: {described(frame)}"
