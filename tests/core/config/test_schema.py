"""What holds for every setting: a help text, a unit, a place in the generated file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.config import Settings, UserSettings, load, render, render_default
from core.config.access import ScramKeys
from core.config.problems import table_of, unit_of
from core.config.render import docstrings

FILE = Path(__file__).parents[3] / "config" / "broker.toml"


def fields(table: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo, str]]:
    """Each setting's dotted key, its field, and its docstring, "" for one without."""
    texts = docstrings(table)
    for name, field in table.model_fields.items():
        inner = table_of(field)
        if inner is not None:
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, field, texts.get(name, "")


ALL = list(fields(Settings))


@pytest.mark.parametrize(("key", "field", "text"), ALL, ids=[key for key, _, _ in ALL])
def test_every_setting_has_a_help_text_and_numbers_have_a_unit(key: str, field: FieldInfo, text: str):
    assert text, f"{key} has no docstring"
    assert text[0].isupper()
    assert text.endswith(".")
    if isinstance(field.default, int | float) and not isinstance(field.default, bool):
        assert unit_of(field) is not None, f"{key} does not say what it counts"
        assert any(hasattr(limit, "ge") for limit in field.metadata), f"{key} has no lower limit"


def test_the_generated_file_is_fresh():
    assert FILE.read_text() == render_default(), "run: make docs"


def test_the_generated_file_says_the_defaults():
    assert load(FILE) == Settings()


def test_the_generated_file_has_every_key():
    text = render_default()
    for key, _, _ in ALL:
        assert f"{key.split('.')[-1]} =" in text


def test_settings_in_force_can_be_rendered_and_read_again(tmp_path: Path):
    settings = load(None, {"server.listen": ["127.0.0.1:7"], "amqp10.idle_time_out": "90s", "log.form": "json"})
    path = tmp_path / "broker.toml"
    path.write_text(render(settings))
    assert load(path) == settings


def test_rendering_keeps_keys_of_passwords_to_itself():
    keys = ScramKeys(iterations=4096, salt=b"s" * 16, stored_key=b"k" * 32, server_key=b"k" * 32)
    text = render(Settings(users=(UserSettings(name="alice", scram=keys),)))
    assert 'name = "alice"' in text
    assert keys.render() not in text
    assert "SCRAM-SHA-256$" not in text
