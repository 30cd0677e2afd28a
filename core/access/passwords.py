"""Derives the keys that are stored for a password [RFC 5802 3]."""

from core.config.access import ITERATIONS, ScramKeys


def hash_password(password: str, *, salt: bytes, iterations: int = ITERATIONS) -> ScramKeys:
    """Derive the keys of a password. It takes about 0.4 µs for each iteration, by design: 0.25 s for
    :data:`ITERATIONS`. Other threads can run meanwhile.

    Raises ValueError for a password with forbidden characters [RFC 4013], or a salt or count out of bounds.
    """
    from scramp import ScramException, ScramMechanism  # 2 MiB, only needed if a peer logs in

    try:
        _, stored_key, server_key, _ = ScramMechanism("SCRAM-SHA-256").make_auth_info(password, iterations, salt)
    except ScramException as error:
        raise ValueError(str(error)) from None
    return ScramKeys(iterations=iterations, salt=salt, stored_key=stored_key, server_key=server_key)
