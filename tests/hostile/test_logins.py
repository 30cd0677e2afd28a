"""Hundreds of wrong passwords at once: few are hashed, none in the event loop, and all other clients go on."""

import time

import pytest
import trio

from amqp10.protocol.sasl import OUTCOME_AUTH, OUTCOME_SYS_TEMP, SaslInit, SaslOutcome, encode_sasl_frame
from amqp10.wire.framing import PROTOCOL_HEADER_SASL
from core.server.hashing import Hashing
from core.server.run import read_clocks
from tests.kit.attacked_server import AttackedServer, attacked_server
from tests.kit.logins import make_access, user

GUESSERS = 500
LIMIT = 20
"""The limit of failed logins for a user and an address."""
ROUNDS = 50_000
"""A twelfth of the iterations of real passwords: 20 ms of a worker thread."""
WRONG = PROTOCOL_HEADER_SASL + encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0guess"))
AUTH, SYS_TEMP = (encode_sasl_frame(SaslOutcome(code=code)) for code in (OUTCOME_AUTH, OUTCOME_SYS_TEMP))


async def guess(server: AttackedServer, outcomes: list[bytes]) -> None:
    peer = await server.connect()
    await peer.stream.send_all(WRONG)
    said = await peer.rest()
    outcomes += [outcome for outcome in (AUTH, SYS_TEMP) if said.endswith(outcome)]


@pytest.mark.slow
async def test_hundreds_of_guesses_at_once_hold_up_no_other_client():
    hashing = Hashing(running_max=2, waiting_max=1000, wait_seconds_max=60.0, clock=read_clocks)
    access = make_access(
        user("guest", "guest", iterations=ROUNDS),
        submit=hashing.submit,
        monotonic=trio.current_time,
        failed_logins_window=86_400.0,  # no failure is forgotten meanwhile, however busy the machine is
    )
    outcomes: list[bytes] = []
    async with attacked_server(access=access, background=[hashing.run], handshake_time_out="60s") as server:
        before, loop = server.rounds, time.thread_time()
        async with trio.open_nursery() as nursery:
            for _ in range(GUESSERS):
                nursery.start_soon(guess, server, outcomes)
        loop = time.thread_time() - loop
        assert server.rounds > before + 10, "the bystander went on"
        assert len(outcomes) == GUESSERS, "each is told"
        failed = outcomes.count(AUTH)
        assert LIMIT <= failed <= LIMIT + 1, "and one that had begun before the limit was reached"
        one_hash = 0.02
        assert loop < GUESSERS * one_hash / 2, f"{loop:.2f} s of the loop, which {GUESSERS} hashes would fill for 10"


async def test_a_client_that_leaves_while_its_password_is_hashed_leaves_nothing_behind():
    hashing = Hashing(running_max=1, waiting_max=1000, wait_seconds_max=60.0, clock=read_clocks)
    access = make_access(user("guest", "guest"), submit=hashing.submit, monotonic=trio.current_time)
    async with attacked_server(access=access, background=[hashing.run]) as server:
        for _ in range(20):
            peer = await server.connect()
            await peer.stream.send_all(WRONG + bytes(100_000))  # and more than the server reads
            await peer.reset()
        await server.until(lambda: hashing.waiting == hashing.running == 0)
        await server.until(lambda: len(server.server.snapshot("connections")) == 1)
