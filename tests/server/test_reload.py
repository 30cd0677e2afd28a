"""Which settings of a changed configuration a reload applies, and what it reports."""

from collections.abc import Callable
from pathlib import Path

import structlog
from structlog.testing import LogCapture

from core.access.passwords import hash_password
from core.config import ConfigError, Settings, UserSettings, load
from core.server.reload import Reload, Reloaded, differences
from tests.kit.serving import serving, settled

ALICE = UserSettings(name="alice", scram=hash_password("secret", salt=b"0123456789abcdef", iterations=4096))


class Changing:
    """A configuration file, the settings that were applied, and the reports."""

    def __init__(self, path: Path, take: Callable[[Settings], None] | None = None) -> None:
        self.path = path
        self.taken: list[Settings] = []
        self.log = LogCapture()
        self.write("")
        self.reload = Reload(
            load(path),
            read=lambda: load(path),
            actions={take or self.taken.append: ("log.level", "server.linger")},
            log=structlog.wrap_logger(None, processors=[self.log]),
        )

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def said(self) -> list[dict[str, object]]:
        self.log.entries.clear()
        self.reload()
        return [dict(entry) for entry in self.log.entries]


def test_what_can_be_taken_is_and_the_rest_is_named(tmp_path: Path):
    file = Changing(tmp_path / "broker.toml")
    file.write('[log]\nlevel = "debug"\n[engine]\nqueues_max = 5\n[amqp10.flow_reason]\nenabled = false\n')
    (line,) = file.said()
    assert line["event"] == "configuration-reloaded"
    assert line["taken"] == "log.level"
    assert line["needs_restart"] == "amqp10.flow_reason.enabled, engine.queues_max"
    (taken,) = file.taken
    assert taken.log.level == "debug"
    assert taken.engine == Settings().engine
    assert file.reload.in_force == taken
    assert file.reload() == Reloaded(needs_restart=("amqp10.flow_reason.enabled", "engine.queues_max"))


def test_what_needs_a_restart_is_named_as_often_as_it_is_asked_for(tmp_path: Path):
    file = Changing(tmp_path / "broker.toml")
    file.write('[log]\nlevel = "debug"\n[engine]\nqueues_max = 5\n')
    file.said()
    (line,) = file.said()
    assert line["taken"] is None
    assert line["needs_restart"] == "engine.queues_max"
    assert len(file.taken) == 1
    file.write("")
    (line,) = file.said()
    assert line["taken"] == "log.level"
    assert line["needs_restart"] is None


def test_a_configuration_that_is_wrong_changes_nothing_and_every_problem_is_told(tmp_path: Path):
    file = Changing(tmp_path / "broker.toml")
    file.write('[log]\nlevel = "loud"\n[server]\nlinger = "1 parsec"\n')
    lines = file.said()
    assert [line["event"] for line in lines] == ["configuration-not-reloaded"] * 2
    assert [str(line["problem"]).partition(": ")[0] for line in lines] == [f"{file.path}:{number}" for number in (2, 4)]
    file.path.unlink()
    (line,) = file.said()
    assert "No such file" in str(line["problem"])
    assert file.reload() == Reloaded(read=False, problems=(str(line["problem"]),))
    assert (file.taken, file.reload.in_force) == ([], Settings())


def test_an_action_that_fails_is_told_and_ends_nothing(tmp_path: Path):
    def refuse(settings: Settings) -> None:
        raise ConfigError(["not here"])

    file = Changing(tmp_path / "broker.toml", refuse)
    file.write('[log]\nlevel = "debug"\n')
    assert [line["event"] for line in file.said()] == ["configuration-not-reloaded", "configuration-reloaded"]
    file.write("")
    assert file.reload() == Reloaded(taken=("log.level",), problems=("log.level, server.linger: not here",))


def test_users_are_one_setting():
    assert list(differences(Settings(), Settings(users=(ALICE,)))) == ["users"]


async def test_a_server_takes_other_limits_for_new_connections():
    async with serving(connections_max=1) as s:
        first, _ = await s.open()
        s.server.take(Settings().server.model_copy(update={"connections_max": 2}))
        await s.open()
        s.server.take(Settings().server.model_copy(update={"connections_max": 1}))
        await first.send(b"still here\n")
        await first.expect(b"still here\n")
        refused = await s.connect()
        await settled()
        assert s.server.counters.refused == {"the limit of 1 connections is reached": 1}
        await refused.stream.aclose()
