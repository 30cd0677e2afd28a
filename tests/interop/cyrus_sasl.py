"""SCRAM with Cyrus SASL, the library behind the mechanisms of many clients, against the broker's side of the exchange.

It needs libsasl2 with its plugin for SCRAM (on Debian libsasl2-2 and libsasl2-modules), so it is not collected by
default: ``python -m pytest tests/interop/cyrus_sasl.py``.
"""

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_uint, c_ulong, c_void_p, cast

import pytest

from core.access.exchange import FAILURE, Reply
from core.access.mechanisms import Scram
from core.config.access import SCRAM_MECHANISMS, HashName
from tests.kit.logins import from_here, make_access, user

pytestmark = pytest.mark.interop

OK, CONTINUE = 0, 1
USER, AUTHENTICATION_NAME, PASSWORD = 0x4001, 0x4002, 0x4004
"""Callbacks of the library (sasl.h). USER asks for an identity to act for; there is none."""
SECRET_BYTES_MAX = 64
ACCESS = make_access(user("alice", "wonderland"), user("hatter", "wonderland", hash_name="sha512"))


class Secret(ctypes.Structure):
    """``sasl_secret_t``."""

    _fields_ = (("length", c_ulong), ("data", c_char * SECRET_BYTES_MAX))


class Callback(ctypes.Structure):
    """``sasl_callback_t``."""

    _fields_ = (("identity", c_ulong), ("function", c_void_p), ("context", c_void_p))


GiveText = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_char_p), POINTER(c_uint))
GiveSecret = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, POINTER(POINTER(Secret)))


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """The library, ready for clients."""
    found = ctypes.CDLL("libsasl2.so.2")
    found.sasl_errdetail.restype = c_char_p
    assert found.sasl_client_init(None) == OK
    return found


def log_in(library: ctypes.CDLL, name: bytes, password: bytes, hash_name: HashName) -> Reply:
    """The whole exchange, up to the broker's last reply."""
    secret = Secret(len(password), password)

    @GiveText
    def give_name(context: object, identity: int, text: object, length: object) -> int:
        text[0] = name if identity == AUTHENTICATION_NAME else b""
        if length:
            length[0] = len(text[0])
        return OK

    @GiveSecret
    def give_secret(connection: object, context: object, identity: int, wanted: object) -> int:
        wanted[0] = ctypes.pointer(secret)
        return OK

    given = {USER: give_name, AUTHENTICATION_NAME: give_name, PASSWORD: give_secret}
    entries = [Callback(identity, cast(function, c_void_p), None) for identity, function in given.items()]
    callbacks = (Callback * 4)(*entries, Callback(0, None, None))
    connection, output, length, chosen = c_void_p(), c_char_p(), c_uint(), c_char_p()
    made = library.sasl_client_new(b"amqp", b"localhost", None, None, callbacks, 0, byref(connection))
    assert made == OK
    wanted = SCRAM_MECHANISMS[hash_name].encode()
    status = library.sasl_client_start(connection, wanted, None, byref(output), byref(length), byref(chosen))
    exchange = Scram(ACCESS, from_here(), hash_name).start()
    while True:
        assert status in (OK, CONTINUE), library.sasl_errdetail(connection)
        said = ctypes.string_at(output, length.value) if length.value else b""
        step, data = exchange.respond(said)
        if step != "challenge":
            library.sasl_dispose(byref(connection))
            return step, data
        status = library.sasl_client_step(connection, data, len(data), None, byref(output), byref(length))


@pytest.mark.parametrize(("name", "hash_name"), [(b"alice", "sha256"), (b"hatter", "sha512")])
def test_the_keys_of_the_user_let_in(library: ctypes.CDLL, name: bytes, hash_name: HashName):
    """The library has checked the broker's proof before it goes on to the last reply."""
    assert log_in(library, name, b"wonderland", hash_name) == ("success", name)
    assert log_in(library, name, b"guess", hash_name) == FAILURE


@pytest.mark.parametrize(("name", "hash_name"), [(b"alice", "sha512"), (b"hatter", "sha256"), (b"bob", "sha512")])
def test_keys_of_the_other_hash_and_unknown_names_do_not(library: ctypes.CDLL, name: bytes, hash_name: HashName):
    assert log_in(library, name, b"wonderland", hash_name) == FAILURE
