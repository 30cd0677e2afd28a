"""SCRAM-SHA-256 and SCRAM-SHA-512, the client's side [RFC 5802, RFC 7677], made of the standard library.

The library scramp, which the broker uses, takes 26 ms of CPU to import, a sixth of what a command may take. Here it is
imported only for names and passwords that SASLprep [RFC 4013] may change or refuse.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hashlib import new, pbkdf2_hmac
from hmac import compare_digest
from typing import Literal, NamedTuple

ITERATIONS_MIN = 4096
"""A server must ask for as many [RFC 7677 4]."""
ITERATIONS_MAX = 9_999_999
"""Some seconds of work. A server that asks for more keeps the client busy for hours."""
ScramName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
HASHES: Mapping[ScramName, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
GS2_HEADER = "n,,"
"""No channel binding, and no identity to act for [RFC 5802 7]."""


class ScramCredentials(NamedTuple):
    """A user name and a password. The password is not sent, and the server proves that it knows it too [RFC 7677]."""

    identity: str
    password: str
    make_nonce: Callable[[], str]
    """A fresh random text for each attempt, printable ASCII without commas."""
    mechanism: ScramName = "SCRAM-SHA-256"

    def start(self) -> "ScramAttempt":
        """Begin an attempt. Raises ValueError for a name or password that SCRAM cannot carry."""
        return ScramAttempt(self.identity, self.password, self.make_nonce(), HASHES[self.mechanism])


class ScramAttempt:
    """The four messages client-first, server-first, client-final, server-final [RFC 5802 3]."""

    def __init__(self, identity: str, password: str, nonce: str, hash_name: str = "sha256") -> None:
        name = _prepared(identity)
        if not name:
            raise ValueError("these credentials cannot be used with SCRAM: the user name is empty")
        self._password = _prepared(password).encode()
        self._nonce = nonce
        self._hash = hash_name
        self._client_first_bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._server_signature: bytes | None = None
        self._proven = False

    def initial_response(self) -> bytes:
        """The client-first message."""
        return f"{GS2_HEADER}{self._client_first_bare}".encode()

    def respond(self, challenge: bytes) -> bytes:
        """The client-final message, then b"". Raises ValueError for a message that breaks the rules, or is one too
        many."""
        if self._server_signature is None:
            return self._client_final(_text(challenge))
        if not self._proven:
            # The server-final message comes as a challenge that is answered with b"", or inside the outcome.
            self._check_server_final(_text(challenge))
            return b""
        raise ValueError("the server goes on after its last word")

    def finish(self, additional_data: bytes) -> None:
        """The outcome says success. Raises ValueError when the server has not proven that it knows the password."""
        if self._server_signature is None:
            raise ValueError("the server has proven nothing")
        if not self._proven:
            self._check_server_final(_text(additional_data))

    def _client_final(self, server_first: str) -> bytes:
        nonce, salt, iterations = self._read_server_first(server_first)
        without_proof = f"c={b64encode(GS2_HEADER.encode()).decode()},r={nonce}"
        signed = f"{self._client_first_bare},{server_first},{without_proof}".encode()
        salted = pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(new(self._hash, client_key).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _read_server_first(self, message: str) -> tuple[str, bytes, int]:
        """Nonce, salt and iterations. What follows them are extensions, which a client ignores [RFC 5802 7]."""
        attributes = message.split(",")
        if [attribute[:2] for attribute in attributes[:3]] != ["r=", "s=", "i="]:
            raise _refused("it is no server-first message")
        nonce, salt, iterations = (attribute[2:] for attribute in attributes[:3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise _refused("its nonce does not continue ours")
        if not (iterations.isascii() and iterations.isdigit() and len(iterations) <= len(str(ITERATIONS_MAX))):
            raise _refused("its number of iterations is none, or too large")
        if int(iterations) < ITERATIONS_MIN:
            raise _refused(f"it asks for fewer than {ITERATIONS_MIN} iterations")
        return nonce, _decoded(salt), int(iterations)

    def _check_server_final(self, message: str) -> None:
        verifier = message.partition(",")[0]
        if not verifier.startswith("v="):
            raise _refused("it is no server-final message, or says that there was an error")
        assert self._server_signature is not None
        if not compare_digest(_decoded(verifier[2:]), self._server_signature):
            raise _refused("the server does not know the password")
        self._proven = True

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _prepared(text: str) -> str:
    """The text after SASLprep, which leaves printable ASCII as it is. Raises ValueError."""
    if text.isascii() and text.isprintable():
        return text
    from scramp import ScramException
    from scramp.utils import saslprep

    try:
        return str(saslprep(text))
    except ScramException as fault:
        raise ValueError(f"these credentials cannot be used with SCRAM: {fault}") from None


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise _refused("it is no UTF-8") from None


def _decoded(value: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except ValueError:
        raise _refused("a value in it is no base 64") from None


def _refused(why: str) -> ValueError:
    return ValueError(f"the server's SCRAM message is refused: {why}")
