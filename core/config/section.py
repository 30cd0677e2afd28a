"""The base of every table in the configuration: strict, closed, immutable, documented."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One table of the file: unknown keys are errors, types are not converted, a field's docstring is its help."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        validate_default=True,
    )
