"""Settings from the environment and the command line: which wins, what a value may be, and where each comes from."""

from pathlib import Path

import pytest

from core.config import ConfigError, load_with_origins, render_origins
from core.config.overrides import from_environment, from_pairs, variable_of


def test_values_are_those_of_the_file_and_texts_need_no_quotes():
    found = from_pairs(["log.level=debug", "server.connections_max=500", "admin.hosts=['a', 'b']", "x.y= z = 1"])
    assert found == {
        "log.level": "debug",
        "server.connections_max": 500,
        "admin.hosts": ["a", "b"],
        "x.y": " z = 1",
    }
    assert from_pairs(["amqp10.link_stream_window=64KiB"]) == {"amqp10.link_stream_window": "64KiB"}


def test_a_value_with_more_lines_is_a_text():
    assert from_pairs(["log.level=1\n[server]\nlisten = 2"]) == {"log.level": "1\n[server]\nlisten = 2"}


@pytest.mark.parametrize("wrong", ["", "log.level", "=debug", " . =1"])
def test_what_is_no_setting_is_refused(wrong: str):
    with pytest.raises(ConfigError, match="must be KEY=VALUE"):
        from_pairs([wrong])


def test_the_environment_names_every_setting_and_nothing_else():
    environ = {"HEADGATE__LOG__LEVEL": "debug", "HEADGATE_URL": "amqp://x", "HOME": "/", "HEADGATE__ADMIN__HOSTS": "[]"}
    assert from_environment(environ) == {"log.level": "debug", "admin.hosts": []}
    settings, _ = load_with_origins()
    for key, _, _ in render_origins(settings, {}):
        assert from_environment({variable_of(key): "1"}) == {key: 1}


def test_each_setting_tells_where_it_comes_from(tmp_path: Path):
    file = tmp_path / "broker.toml"
    file.write_text('[log]\nlevel = "warning"\n[admin]\nlive_clients_max = 3\n')
    given = {"log.level": "debug", "server.connections_max": 500}
    settings, places = load_with_origins(file, given, origins={"log.level": "environment HEADGATE__LOG__LEVEL"})
    found = {key: (value, place) for key, value, place in render_origins(settings, places)}
    assert found["log.level"] == ('"debug"', "environment HEADGATE__LOG__LEVEL")
    assert found["server.connections_max"] == ("500", "command line")
    assert found["admin.live_clients_max"] == ("3", f"{file}:4")
    assert found["admin.live_clients_per_user_max"] == ("8", "default")


def test_a_wrong_value_names_the_variable():
    with pytest.raises(ConfigError) as refused:
        load_with_origins(None, {"log.lvel": "debug"}, origins={"log.lvel": "environment HEADGATE__LOG__LVEL"})
    assert any("environment HEADGATE__LOG__LVEL" in problem for problem in refused.value.problems)
