"""The publish numbers that a broker has confirmed: they may be out of order and in ranges; each must come exactly once.

Publish numbers count from 1. A confirm is for one number, or for all unconfirmed numbers up to it [confirm.select].
"""

from __future__ import annotations

import struct

from amqp10.load.amqp091 import wire
from amqp10.load.wire import WireError

ACK = struct.Struct(">BHIHHQBB")
"""A whole basic.ack: type, channel, size, class, method, delivery_tag, multiple, end."""
ACKS_AT_ONCE_MAX = 256
"""Confirms compared together: where acks and deliveries alternate, a larger number would compare in vain."""


class ChannelConfirms:
    """The confirms of one channel. `repeated` counts messages that were confirmed more than once."""

    __slots__ = ("_above", "_low", "repeated")

    def __init__(self) -> None:
        self._low = 1  # all numbers below are confirmed
        self._above: set[int] = set()
        self.repeated = 0

    @property
    def count(self) -> int:
        return self._low - 1 + len(self._above)

    def take(self, data: bytes, at: int, sent: int) -> int:
        """Take the complete basic.ack at `at` and like ones behind it; returns the position after them."""
        whole = at + min((len(data) - at) // ACK.size, ACKS_AT_ONCE_MAX) * ACK.size
        head = ACK.unpack_from(data, at)[:5]
        for one in ACK.iter_unpack(data[at:whole]):
            if one[:5] != head or one[7] != wire.FRAME_END:
                break
            self.confirm(one[5], multiple=bool(one[6]), sent=sent)
            at += ACK.size
        return at

    def confirm(self, number: int, *, multiple: bool, sent: int) -> None:
        """Note one confirm, when ``sent`` messages were sent so far."""
        if number > sent:
            raise WireError(f"publish number {number} was confirmed, {sent} were sent")
        if number == self._low and not self._above:  # the usual case
            self._low += 1
            return
        if number < self._low or (number in self._above and not multiple):
            self.repeated += 1
            return
        if multiple:
            self._above = {one for one in self._above if one > number}
            self._low = number + 1
        else:
            self._above.add(number)
        while self._low in self._above:
            self._above.remove(self._low)
            self._low += 1
