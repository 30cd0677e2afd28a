"""Guesses from the first bytes which protocol other than AMQP a client has tried on this port."""

_HINTS = (
    (b"\x16\x03", "TLS: this port speaks plain AMQP; connect without TLS"),
    (b"GET ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"POST ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"PUT ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"HEAD ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"PRI * HT", "HTTP/2: this port speaks AMQP, not HTTP"),
    (b"OPTIONS ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"CONNECT ", "HTTP: this port speaks AMQP, not HTTP"),
    (b"\x10", "MQTT: this port speaks AMQP, not MQTT"),
    (b"SSH-", "SSH: this port speaks AMQP"),
    (b"AMQP", "AMQP of a version that is not served here"),
)


def hint(preface: bytes) -> str:
    """Return one line for the log about a header that no front end accepts."""
    for start, text in _HINTS:
        if preface.startswith(start):
            return text
    return "not an AMQP protocol header"
