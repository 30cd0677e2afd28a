"""What imports find while the broker is imported, in place of modules that an idle broker does not use."""

import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from amqp10.cli.starting import Later, instead

MODULE, INNER = "dbm", "dbm.dumb"
"""A package of the standard library that nothing here needs, and a module of it."""


@pytest.fixture(autouse=True)
def _unloaded() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == MODULE]:
        del sys.modules[name]


def test_a_module_is_imported_when_a_name_of_it_is_used():
    later = Later(MODULE)
    with instead({MODULE: later}):
        assert import_module(MODULE) is later
    assert MODULE not in sys.modules
    whichdb = later.whichdb
    assert import_module(MODULE) is not later
    assert import_module(MODULE).whichdb is whichdb


def test_a_name_is_looked_up_once():
    later = Later(MODULE)
    found = later.whichdb
    assert vars(later)["whichdb"] is found


def test_a_name_that_the_module_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = Later(MODULE).missing


def test_a_name_that_is_used_meanwhile_brings_the_module_for_everything_afterwards():
    later = Later(MODULE)
    with instead({MODULE: later}):
        whichdb = later.whichdb
        whole = import_module(MODULE)
        assert whole is not later
        assert whole.whichdb is whichdb
    assert sys.modules[MODULE] is whole


def test_a_module_inside_can_be_imported_meanwhile():
    with instead({MODULE: Later(MODULE)}):
        assert import_module(INNER).__name__ == INNER
    assert import_module(MODULE).dumb is sys.modules[INNER]


def test_there_is_no_module_meanwhile():
    with instead({MODULE: None}), pytest.raises(ImportError):
        import_module(MODULE)
    assert import_module(MODULE).__name__ == MODULE


def test_a_module_that_is_there_stays():
    whole = import_module(MODULE)
    with instead({MODULE: None}):
        assert import_module(MODULE) is whole
    assert sys.modules[MODULE] is whole
