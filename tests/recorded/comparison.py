"""Compares what the broker says with what it said when a conversation was recorded, frame by frame."""

from amqp10.load import wire
from tests.recorded.fields import HEADER_OF_091, UNREADABLE, method_of, performative_code, split_frames
from tests.recorded.masks import Masked, masked_in, without_masked

PERFORMATIVES = {
    wire.OPEN: "open", wire.BEGIN: "begin", wire.ATTACH: "attach", wire.FLOW: "flow", wire.TRANSFER: "transfer",
    wire.DISPOSITION: "disposition", wire.DETACH: "detach", wire.END: "end", wire.CLOSE: "close",
    wire.SASL_MECHANISMS: "sasl-mechanisms", wire.SASL_OUTCOME: "sasl-outcome",
}  # fmt: skip
SHOWN_BYTES_MAX = 400


class ConversationDiffers(AssertionError):
    """The broker said something else than in the recording."""


class Comparison:
    """Compares the frames of one connection, and knows the generated values of the replay.

    ``generated`` is shared by the connections of one conversation: recorded value to the value of the replay.
    """

    def __init__(self, first_piece: bytes, generated: dict[bytes, bytes]) -> None:
        self.is_091 = first_piece.startswith(HEADER_OF_091)
        self._generated = generated

    def frames(self, data: bytes) -> tuple[list[bytes], bytes]:
        """The whole frames in ``data``, and what is left behind them."""
        return split_frames(data, is_091=self.is_091)

    def as_of_replay(self, recorded: bytes) -> bytes:
        """Recorded bytes with the generated values of the replay."""
        for old, new in self._generated.items():
            recorded = recorded.replace(old, new)
        return recorded

    def compare(self, recorded: list[bytes], seen: list[bytes], where: str) -> None:
        """Raise ConversationDiffers for the first frame that differs from the recorded one, is missing or too many."""
        for number, (old, new) in enumerate(zip(recorded, seen, strict=False)):
            self._compare_frame(old, new, f"{where}, frame {number}")
        if len(recorded) != len(seen):
            more, rest = ("missing", recorded[len(seen) :]) if len(recorded) > len(seen) else ("too many", seen)
            shown = described(rest[0 if more == "missing" else len(recorded)])
            raise ConversationDiffers(
                f"{where}: {len(recorded)} frames are recorded and {len(seen)} came; {more}: {shown}"
            )

    def _compare_frame(self, recorded: bytes, seen: bytes, where: str) -> None:
        expected = self.as_of_replay(recorded)
        if expected == seen:
            return
        masked, masked_seen = self._masked_in(expected), self._masked_in(seen)
        if without_masked(expected, masked) != without_masked(seen, masked_seen):
            raise ConversationDiffers(f"{where}\nrecorded: {described(expected)}\ncame:     {described(seen)}")
        for one, other in zip(masked, masked_seen, strict=True):
            if one.mask.generated:
                self._learn(one.value(expected), other.value(seen))

    def _masked_in(self, frame: bytes) -> list[Masked]:
        """What is masked, without generated values that are known already: those must be the same from then on."""
        known = self._generated.values()
        return [one for one in masked_in(frame) if not one.mask.generated or one.value(frame) not in known]

    def _learn(self, recorded: bytes, seen: bytes) -> None:
        assert len(recorded) == len(seen), f"{recorded!r} cannot stand for {seen!r}: their lengths differ"
        if recorded != seen:
            self._generated[recorded] = seen


def described(frame: bytes) -> str:
    """A frame for a reader: its name, its channel, its fields as far as they can be read, and its bytes."""
    shown = frame.hex() if len(frame) <= SHOWN_BYTES_MAX else f"{frame[:SHOWN_BYTES_MAX].hex()}…"
    shown = f"{shown} ({len(frame)} bytes)"
    if (method := method_of(frame)) is not None:
        return f"method {method[0]}.{method[1]} on channel {int.from_bytes(frame[1:3], 'big')}: {frame!r:.1000} {shown}"
    code = performative_code(frame)
    if code is None:
        return shown
    try:
        decoded = wire.decode_frame(frame, 0, len(frame))
    except UNREADABLE:
        return shown
    channel = int.from_bytes(frame[6:8], "big")
    fields = decoded.fields if decoded is not None else []
    return f"{PERFORMATIVES.get(code, hex(code))} on channel {channel}: {fields!r} {shown}"
