"""Hypothesis strategies for AMQP values, each with the property that it decodes to what was encoded."""

from hypothesis import strategies as st

from amqp10.wire.codec import format_codes as code
from amqp10.wire.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)


def around(*edges: int) -> st.SearchStrategy[int]:
    """One of the given numbers, which lie at the edges between two widths of the encoding."""
    return st.sampled_from(edges)


uints = st.integers(0, 2**32 - 1) | around(0, 1, 255, 256, 2**32 - 1)
ulongs = st.integers(0, 2**64 - 1) | around(0, 1, 255, 256, 2**64 - 1)
longs = st.integers(-(2**63), 2**63 - 1) | around(-(2**63), -129, -128, 0, 127, 128, 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1) | around(-(2**31), -129, -128, 0, 127, 128, 2**31 - 1)
names = st.text(st.characters(codec="ascii"), max_size=20)
texts = st.text(max_size=20) | st.sampled_from(["x" * 255, "x" * 256, "ä" * 128])
blobs = st.binary(max_size=20) | st.sampled_from([b"x" * 255, b"x" * 256])
characters = st.characters(codec="utf-8")
# NaN is left out: it does not equal itself.
singles = st.floats(width=32, allow_nan=False)
doubles = st.floats(allow_nan=False)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    longs,
    doubles,
    blobs,
    texts,
    st.uuids(),
    st.integers(0, 255).map(UByte),
    st.integers(0, 65535).map(UShort),
    uints.map(UInt),
    ulongs.map(ULong),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    ints.map(Int),
    singles.map(Float),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
    characters.map(Char),
    st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    names.map(Symbol),
)
"""Values of every primitive type that holds no other value."""

keys = st.one_of(texts, names.map(Symbol), uints.map(UInt), ulongs.map(ULong), blobs, st.uuids(), longs)
"""Map keys. Two keys that are equal in Python are the same AMQP value."""

descriptors = ulongs.map(ULong) | names.map(Symbol)

_ELEMENTS = {
    code.NULL: st.none(),
    code.BOOLEAN_TRUE: st.just(True),
    code.BOOLEAN_FALSE: st.just(False),
    code.UINT_0: st.just(UInt(0)),
    code.ULONG_0: st.just(ULong(0)),
    code.LIST_0: st.builds(list),
    code.BOOLEAN: st.booleans(),
    code.UBYTE: st.integers(0, 255).map(UByte),
    code.BYTE: st.integers(-128, 127).map(Byte),
    code.SMALL_UINT: st.integers(0, 255).map(UInt),
    code.SMALL_ULONG: st.integers(0, 255).map(ULong),
    code.SMALL_INT: st.integers(-128, 127).map(Int),
    code.SMALL_LONG: st.integers(-128, 127),
    code.USHORT: st.integers(0, 65535).map(UShort),
    code.SHORT: st.integers(-(2**15), 2**15 - 1).map(Short),
    code.UINT: uints.map(UInt),
    code.INT: ints.map(Int),
    code.FLOAT: singles.map(Float),
    code.CHAR: characters.map(Char),
    code.DECIMAL32: st.binary(min_size=4, max_size=4).map(Decimal32),
    code.ULONG: ulongs.map(ULong),
    code.LONG: longs,
    code.DOUBLE: doubles,
    code.TIMESTAMP: st.integers(-(2**63), 2**63 - 1).map(Timestamp),
    code.DECIMAL64: st.binary(min_size=8, max_size=8).map(Decimal64),
    code.DECIMAL128: st.binary(min_size=16, max_size=16).map(Decimal128),
    code.UUID: st.uuids(),
    code.BINARY_8: st.binary(max_size=255),
    code.BINARY_32: blobs,
    code.STRING_8: st.text(max_size=60),
    code.STRING_32: texts,
    code.SYMBOL_8: names.map(Symbol),
    code.SYMBOL_32: names.map(Symbol),
    code.LIST_8: st.lists(st.booleans(), max_size=20),
    code.LIST_32: st.lists(scalars, max_size=5),
    code.MAP_8: st.dictionaries(st.booleans(), st.none(), max_size=2),
    code.MAP_32: st.dictionaries(keys, scalars, max_size=3),
}
ARRAY_CODES = (*_ELEMENTS, code.ARRAY_8, code.ARRAY_32)
"""Every format code that an array's elements may have."""


def _array_of(constructor_code: int) -> st.SearchStrategy[Array]:
    if constructor_code == code.ARRAY_8:
        elements: st.SearchStrategy[object] = st.builds(
            Array, st.just(code.BOOLEAN), st.lists(st.booleans(), max_size=9).map(tuple)
        )
    elif constructor_code == code.ARRAY_32:
        elements = st.sampled_from(tuple(_ELEMENTS)).flatmap(_array_of)
    else:
        elements = _ELEMENTS[constructor_code]
    return st.builds(
        Array,
        st.just(constructor_code),
        st.lists(elements, max_size=5).map(tuple),
        st.lists(descriptors, max_size=2).map(tuple),
    )


arrays = st.sampled_from(ARRAY_CODES).flatmap(_array_of)

values = st.recursive(
    scalars | arrays,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(keys, inner, max_size=4),
        st.builds(Described, descriptors, inner),
    ),
    max_leaves=12,
)
"""Values of any type."""

fields = st.dictionaries(names, values, max_size=3)
"""Maps of a field of type fields. Their keys are as the codec decodes them."""
symbols = st.lists(names, max_size=3).map(tuple)
"""Values of a field of symbols that is marked multiple."""
