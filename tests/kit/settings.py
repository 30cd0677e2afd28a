"""Settings for tests: the configuration's defaults with some values changed, also to values that no file may have."""

from collections.abc import Mapping
from typing import TypeVar

from core.config.section import Section
from core.config.settings import Settings
from core.credit_flow.flow import StageCreditSpec

SectionT = TypeVar("SectionT", bound=Section)

DEFAULTS = Settings()
GENERAL = StageCreditSpec(DEFAULTS.stage_credit.initial, DEFAULTS.stage_credit.more_after)
"""The default stage credit from reader to channel, and from channel to queue."""
TO_STORE = StageCreditSpec(DEFAULTS.stage_credit.store_initial, DEFAULTS.stage_credit.store_more_after)
"""The default stage credit from a queue to the message store."""


def make_settings(**tables: Mapping[str, object]) -> Settings:
    """The defaults with these values, by table: ``make_settings(amqp10={"unsent_bytes_max": 100})``.

    The values are not checked, because tests reach a limit sooner when it is lower than a file may set it.
    """
    return _changed(DEFAULTS, tables)


def _changed(section: SectionT, values: Mapping[str, object]) -> SectionT:
    """The section with these values; a mapping changes the section inside."""
    unknown = set(values) - set(type(section).model_fields)
    assert not unknown, f"{type(section).__name__} has no {unknown}"
    found = {key: getattr(section, key) for key in values}
    return section.model_copy(
        update={
            key: _changed(found[key], value) if isinstance(found[key], Section) else value  # type: ignore[arg-type]
            for key, value in values.items()
        }
    )
