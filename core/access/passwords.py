"""Derives the keys that are stored for a password [RFC 5802 3]."""

from core.config.access import ITERATIONS, SCRAM_MECHANISMS, HashName, ScramKeys


def hash_password(
    password: str, *, salt: bytes, iterations: int = ITERATIONS, hash_name: HashName = "sha256"
) -> ScramKeys:
    """Derive the keys of a password. It takes about 0.4 µs for each iteration, by design: 0.25 s for
    :data:`ITERATIONS`, and about twice as much with SHA-512. Other threads can run meanwhile.

    Raises ValueError for a password with forbidden characters [RFC 4013], or a salt or count out of bounds.
    """
    from scramp import ScramException, ScramMechanism  # 2 MiB, only needed if a peer logs in

    try:
        _, stored_key, server_key, _ = ScramMechanism(SCRAM_MECHANISMS[hash_name]).make_auth_info(
            password, iterations, salt
        )
    except ScramException as error:
        raise ValueError(str(error)) from None
    return ScramKeys(iterations, salt, stored_key, server_key, hash_name)
