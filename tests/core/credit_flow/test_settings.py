"""The settings of stage credit."""

import pytest
from pydantic import ValidationError

from core.config.credit_flow import StageCreditSettings


def test_row_1_07_the_defaults_are_those_of_rabbitmq_and_can_be_changed():
    settings = StageCreditSettings()
    assert (settings.initial, settings.more_after) == (400, 200)
    assert (settings.store_initial, settings.store_more_after) == (4000, 800)
    assert StageCreditSettings(initial=200, more_after=50).more_after == 50


@pytest.mark.parametrize("prefix", ["", "store_"])
def test_more_after_may_be_all_of_initial_and_no_more(prefix: str):
    assert StageCreditSettings.model_validate({f"{prefix}initial": 10, f"{prefix}more_after": 10})
    with pytest.raises(ValidationError, match=f"must not be more than {prefix}initial, which is 10"):
        StageCreditSettings.model_validate({f"{prefix}initial": 10, f"{prefix}more_after": 11})
