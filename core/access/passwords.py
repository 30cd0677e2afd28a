"""Passwords and the keys that are kept of them [RFC 5802 3]."""

from core.config.access import ITERATIONS, ScramKeys


def hash_password(password: str, *, salt: bytes, iterations: int = ITERATIONS) -> ScramKeys:
    """The keys of a password. Takes about 0.4 us an iteration, by design: 0.25 s for :data:`ITERATIONS`, during which
    other threads go on.

    Raises ValueError for a password with forbidden characters [RFC 4013], or a salt or count out of bounds.
    """
    from scramp import ScramException, ScramMechanism  # 2 MiB, for brokers where somebody logs in

    try:
        _, stored_key, server_key, _ = ScramMechanism("SCRAM-SHA-256").make_auth_info(password, iterations, salt)
    except ScramException as error:
        raise ValueError(str(error)) from None
    return ScramKeys(iterations=iterations, salt=salt, stored_key=stored_key, server_key=server_key)
