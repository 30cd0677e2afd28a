"""Changes that are asked for again: until they can be made, and only when it is time."""

from collections.abc import Callable

import pytest

from core.declaring import Recording, once_done, once_gone
from core.errors import NotFound, PreconditionFailed, StillGoing
from core.slices import Walk


class Change:
    """A change that answers differently each time it is asked for."""

    def __init__(self, *answers: Exception | str) -> None:
        self._answers = [*answers]

    def __call__(self) -> str:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def end_of(walk: Walk[object]) -> object:
    with pytest.raises(StopIteration) as end:
        next(walk)
    return end.value.value


@pytest.mark.parametrize("again", [once_gone, once_done])
def test_what_is_under_way_says_when_to_ask_again(again: Callable[[Change], Walk[str | None]]):
    calls: list[Callable[[], None]] = []
    walk = again(Change(StillGoing("until it is called", calls.append), StillGoing("in the next turn"), "made"))
    waits_for = next(walk)
    assert waits_for == calls.append
    assert next(walk) is None
    assert end_of(walk) == "made"


def test_what_is_gone_when_its_removal_is_asked_for_again_was_removed():
    assert end_of(once_done_after_a_step(Change(StillGoing("going"), NotFound("gone")))) is None
    with pytest.raises(NotFound):
        next(once_done(Change(NotFound("never was there"))))


def once_done_after_a_step(change: Change) -> Walk[str | None]:
    walk = once_done(change)
    next(walk)
    return walk


def test_a_recording_is_waited_for():
    recording: Recording[int] = Recording()
    walk = recording.walk()
    waits_for = next(walk)
    assert waits_for is not None
    called: list[bool] = []
    waits_for(lambda: called.append(True))
    assert called == []
    recording.finish(3)
    assert called == [True]
    assert end_of(walk) == 3


def test_a_recording_that_failed_says_why():
    recording: Recording[int] = Recording()
    recording.fail("the disk is full")
    with pytest.raises(PreconditionFailed, match="the disk is full"):
        next(recording.walk())
