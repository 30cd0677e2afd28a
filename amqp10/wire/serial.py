"""Serial numbers of 32 bits [RFC 1982]: delivery-ids, transfer-ids and delivery-counts [2.8.10].

On the wire these counters wrap from 2^32-1 to 0, so ``<``, ``+`` and ``-`` are wrong for them. This is the only module
that does arithmetic on wire numbers. Other modules call it, or work with *extended* numbers, which never wrap and
whose low 32 bits are the wire's.

All functions expect serials that the codec has decoded, 0 to 2^32-1. They run for every message, so they check only
what the RFC leaves undefined.
"""

BITS = 32
MASK = 0xFFFFFFFF
"""The largest serial number, and the mask that takes the serial out of an extended number."""

_HALF = 1 << (BITS - 1)
MAX_ADDEND = _HALF - 1
"""The largest number that may be added to a serial so that the sum still compares as greater [RFC 1982 3.1]."""


def add(serial: int, n: int) -> int:
    """The serial ``n`` steps on, in order after ``serial``. Raises ValueError unless 0 <= n <= 2^31-1.

    For results that are later compared with the operand: ids and counts that advance.
    """
    if not 0 <= n <= MAX_ADDEND:
        raise ValueError(f"{n} cannot be added to a serial number: the limit is {MAX_ADDEND}")
    return (serial + n) & MASK


def advance(serial: int, n: int) -> int:
    """The serial ``n`` steps on, for any uint ``n``; it need not compare as greater.

    For the limit that a flow sets, delivery-count + link-credit [2.6.7] or next-id + window [2.5.6]: both numbers come
    from a peer, which may send any uint. The RFC forbids such an addition because the result cannot be compared with
    ``compare``; the distance to the limit is ``(limit - serial) & MASK``.
    """
    return (serial + n) & MASK


def diff(a: int, b: int) -> int:
    """How many steps lead from ``b`` to ``a``, from -2^31 to 2^31-1.

    At a distance of exactly 2^31, where the RFC defines no order, the result is -2^31: ``a`` counts as behind, so a
    peer that jumps by half the range is never taken to be ahead.
    """
    return ((a - b + _HALF) & MASK) - _HALF


def compare(a: int, b: int) -> int:
    """-1, 0 or 1 as ``a`` is before, equal to or after ``b``; at a distance of 2^31 ``a`` is before, as in ``diff``."""
    if a == b:
        return 0
    return 1 if (a - b) & MASK < _HALF else -1


def in_range(serial: int, first: int, last: int) -> bool:
    """True when counting up from ``first`` to ``last``, both included, meets ``serial``.

    When ``last`` is numerically smaller, the count wraps from 2^32-1 to 0, so no range is empty.
    """
    return (serial - first) & MASK <= (last - first) & MASK


def extend(reference_extended: int, serial: int) -> int:
    """The unbounded number nearest to the reference whose low 32 bits are ``serial``.

    It may be negative when the reference is near 0 and the serial is behind it.
    """
    return reference_extended + ((serial - reference_extended + _HALF) & MASK) - _HALF
