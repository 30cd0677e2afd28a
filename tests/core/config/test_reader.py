"""Reading a file: all errors together, each with its line, the value, the limit and the remedy."""

from pathlib import Path

import pytest

from core.config import ConfigError, Settings, load

SCRAM = (
    "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)


def problems(tmp_path: Path, text: str, **overrides: object) -> list[str]:
    """The problems of a text, without the folder's name."""
    path = tmp_path / "broker.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path, {key.replace("__", "."): value for key, value in overrides.items()})
    return [problem.removeprefix(f"{tmp_path}/") for problem in caught.value.problems]


def test_nothing_means_the_defaults():
    assert load() == Settings()


def test_a_file_changes_what_it_says(tmp_path: Path):
    path = tmp_path / "broker.toml"
    path.write_text('[amqp10]\nmax_link_credit = 1000\nidle_time_out = "45s"\n[amqp10.flow_reason]\nenabled = false')
    settings = load(path)
    assert settings.amqp10.max_link_credit == 1000
    assert settings.amqp10.idle_time_out == 45.0
    assert settings.amqp10.flow_reason.enabled is False
    assert settings.amqp10.channel_max == 63


def test_overrides_go_before_the_file(tmp_path: Path):
    path = tmp_path / "broker.toml"
    path.write_text('[server]\nlisten = ["127.0.0.1:1"]\nlinger = "2s"')
    settings = load(path, {"server.listen": ["127.0.0.1:2"], "data.folder": tmp_path})
    assert settings.server.listen == ("127.0.0.1:2",)
    assert settings.server.linger == 2.0
    assert settings.data.folder == tmp_path


def test_all_errors_are_listed_at_once_in_the_order_of_their_lines(tmp_path: Path):
    text = """\
[server]
listen = ["127.0.0.1:99999"]
handshake_timeout = "5s"
linger = "70s"

[amqp10]
max_frame_size = "100B"
window_top_up = 500
channel_max = "x"
idle_time_out = "5 parsecs"
flow_reason = { enabled = 1 }
[logs]
[log]
level = "loud"
"""
    assert problems(tmp_path, text) == [
        (
            "broker.toml:2: server.listen = ['127.0.0.1:99999']: "
            '"127.0.0.1:99999" must be HOST:PORT with a port of 0 to 65535'
        ),
        "broker.toml:3: server.handshake_timeout is not a key; did you mean server.handshake_time_out?",
        'broker.toml:4: server.linger = "70s": must be at most "1min"',
        'broker.toml:7: amqp10.max_frame_size = "100B": must be at least "512B"',
        "broker.toml:8: amqp10.window_top_up = 500: must be less than max_incoming_window, which is 400",
        'broker.toml:9: amqp10.channel_max = "x": must be a whole number',
        (
            'broker.toml:10: amqp10.idle_time_out = "5 parsecs": '
            'must be a number with a unit (ms, s, min, h, d), such as "250ms"'
        ),
        "broker.toml:11: amqp10.flow_reason.enabled = 1: must be true or false",
        "broker.toml:12: logs is not a key; did you mean log?",
        "broker.toml:14: log.level = \"loud\": must be 'debug', 'info', 'warning' or 'error'",
    ]


def test_a_key_in_the_wrong_table_is_sent_to_the_right_one(tmp_path: Path):
    assert problems(tmp_path, "[server]\nmax_link_credit = 5") == [
        "broker.toml:2: server.max_link_credit is not a key; did you mean amqp10.max_link_credit?"
    ]


def test_an_error_in_an_override_names_the_command_line(tmp_path: Path):
    assert problems(tmp_path, "", server__linger="x") == [
        'command line: server.linger = "x": must be a number with a unit (ms, s, min, h, d), such as "250ms"'
    ]


def test_a_text_that_is_no_toml_is_refused_with_its_line(tmp_path: Path):
    assert problems(tmp_path, "[server]\nlisten = x\n") == ["broker.toml:2: Invalid value (column 10)"]
    assert problems(tmp_path, "[server]\nlisten = ") == ["broker.toml:2: Invalid value (at end of document)"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"missing\.toml: No such file"):
        load(tmp_path / "missing.toml")
    (tmp_path / "latin1.toml").write_bytes(b"# \xe4")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "latin1.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ConfigError, match="larger than"):
        load(tmp_path / "large.toml")


def test_a_wrong_value_is_not_repeated_at_length(tmp_path: Path):
    (problem,) = problems(tmp_path, f'[log]\nlevel = "{"x" * 500}"')
    assert len(problem) < 200


@pytest.mark.parametrize("listen", ["0.0.0.0:5672", "[::]:5672", "192.0.2.1:5672", "broker.example:5672"])
def test_without_users_only_this_machine_may_connect(tmp_path: Path, listen: str):
    (problem,) = problems(tmp_path, f'[server]\nlisten = ["127.0.0.1:1", "{listen}"]')
    assert problem.startswith(f'broker.toml:2: server.listen = "{listen}": can be reached from other machines')


@pytest.mark.parametrize("listen", ["127.0.0.1:5672", "127.9.9.9:1", "[::1]:5672", "localhost:0"])
def test_loopback_needs_no_users(listen: str):
    assert load(None, {"server.listen": [listen]}).server.listen == (listen,)


def test_with_users_any_address_may_be_listened_on(tmp_path: Path):
    path = tmp_path / "broker.toml"
    path.write_text(f'[server]\nlisten = ["0.0.0.0:5672"]\n[[users]]\nname = "alice"\nscram = "{SCRAM}"\n')
    (user,) = load(path).users
    assert user.name == "alice"
    assert user.scram.iterations == 4096


def test_users_have_names_of_their_own_and_real_keys(tmp_path: Path):
    user = f'[[users]]\nname = "alice"\nscram = "{SCRAM}"\n'
    assert "name 'alice' 2 times" in problems(tmp_path, user + user)[0]
    assert problems(tmp_path, '[[users]]\nname = ""\nscram = "secret"\n[[users]]\nnam = "x"') == [
        'broker.toml:2: users[1].name = "": must not be empty',
        "broker.toml:3: users[1].scram: must be a line made by: headgate hash-password",
        "broker.toml:4: users[2].name is missing",
        "broker.toml:4: users[2].scram is missing",
        "broker.toml:5: users[2].nam is not a key; did you mean users.name?",
    ]
