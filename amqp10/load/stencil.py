"""Many equal frames side by side in one buffer, with columns that change from frame to frame.

Frames of the same kind differ in a few places only: the delivery-id, the delivery-tag, the numbers in the body. With
frames placed at a fixed stride, the n-th byte of such a field over all frames is a *strided slice*, which CPython reads
or writes at one to two nanoseconds per frame. So the cost of making a burst, or checking a run, hardly depends on the
number of fields, and on the body's size only by copying it.

Numbers are unsigned and big-endian, as on the wire.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import count

FEW = 6
"""With fewer frames, going through them one by one is cheaper than columns: see `limit`."""

_TYPE_CODES = {4: "I", 8: "Q"}


def packed(values: Iterable[int], *, width: int) -> bytes:
    """The values one after the other, `width` bytes (4 or 8) each."""
    numbers = array(_TYPE_CODES[width], values)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def gathered(data: bytes, at: int, *, stride: int, count: int, width: int) -> bytes:
    """The `width` bytes at `at` in the first of `count` frames, and at the same place in the others, side by side."""
    column = bytearray(count * width)
    for k in range(width):
        column[k::width] = data[at + k : at + k + (count - 1) * stride + 1 : stride]
    return bytes(column)


def read_column(data: bytes, at: int, *, stride: int, count: int, width: int) -> array[int]:
    """The number at `at` in the first of `count` frames, and at the same place in the others."""
    numbers = array(_TYPE_CODES[width], gathered(data, at, stride=stride, count=count, width=width))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def equal_prefix(data: bytes, at: int, *, stride: int, count: int) -> int:
    """How many of `count` frames, from the first on, agree with the first in the byte at `at`."""
    column = data[at : at + (count - 1) * stride + 1 : stride]
    return count - len(column.lstrip(column[:1]))


class Stencil:
    """A buffer of `capacity` copies of `frame`; the caller overwrites columns and takes the first n frames.

    The buffer is reused: the result of `take` is invalid after the next `write`.
    """

    __slots__ = ("_buffer", "_view", "capacity", "stride")

    def __init__(self, frame: bytes, capacity: int) -> None:
        self.stride = len(frame)
        self.capacity = capacity
        self._buffer = bytearray(frame * capacity)
        self._view = memoryview(self._buffer)

    def write(self, offsets: Iterable[int], numbers: Sequence[int], *, width: int) -> None:
        """Write the numbers, one per frame from the first on, at each of these offsets within a frame."""
        self.put(offsets, packed(numbers, width=width), width=width)

    def put(self, offsets: Iterable[int], data: bytes, *, width: int) -> None:
        """Write `width` bytes of the data into each frame, from the first on, at each of these offsets within it."""
        if len(data) < FEW * width:
            for at, base in zip(range(0, len(data), width), count(0, self.stride), strict=False):
                for offset in offsets:
                    self._buffer[base + offset : base + offset + width] = data[at : at + width]
            return
        columns = [data[k::width] for k in range(width)]
        end = len(data) // width * self.stride
        for offset in offsets:
            for k, column in enumerate(columns):
                self._buffer[offset + k : end : self.stride] = column

    def take(self, frames: int, *, first: int = 0) -> memoryview:
        """``frames`` frames, from the one with the number ``first`` on."""
        return self._view[first * self.stride : (first + frames) * self.stride]
