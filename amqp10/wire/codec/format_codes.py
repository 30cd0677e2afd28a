"""The format codes of the type system [1.6]: the byte that opens every encoded value.

The high half of a code tells the width of what follows [1.2]: 4 nothing; 5, 6, 7, 8, 9 one, two, four, eight and
sixteen bytes; A and B a size of one or four bytes; C and D a size and a count; E and F a size, a count and the
constructor of the elements.
"""

DESCRIBED = 0x00

NULL = 0x40
BOOLEAN_TRUE = 0x41
BOOLEAN_FALSE = 0x42
UINT_0 = 0x43
ULONG_0 = 0x44
LIST_0 = 0x45

UBYTE = 0x50
BYTE = 0x51
SMALL_UINT = 0x52
SMALL_ULONG = 0x53
SMALL_INT = 0x54
SMALL_LONG = 0x55
BOOLEAN = 0x56

USHORT = 0x60
SHORT = 0x61

UINT = 0x70
INT = 0x71
FLOAT = 0x72
CHAR = 0x73
DECIMAL32 = 0x74

ULONG = 0x80
LONG = 0x81
DOUBLE = 0x82
TIMESTAMP = 0x83
DECIMAL64 = 0x84

DECIMAL128 = 0x94
UUID = 0x98

BINARY_8 = 0xA0
STRING_8 = 0xA1
SYMBOL_8 = 0xA3
BINARY_32 = 0xB0
STRING_32 = 0xB1
SYMBOL_32 = 0xB3

LIST_8 = 0xC0
MAP_8 = 0xC1
LIST_32 = 0xD0
MAP_32 = 0xD1
ARRAY_8 = 0xE0
ARRAY_32 = 0xF0
