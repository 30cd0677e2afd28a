"""The examples for Delta Lake and Iceberg, as modules: the names of their files begin with digits."""

import importlib.util
from types import ModuleType

from tests.kit.broker_process import ROOT

FORMS = ("delta", "iceberg")


def lake_module(form: str) -> ModuleType:
    """The example for a form of table."""
    spec = importlib.util.spec_from_file_location(form, ROOT / "examples" / f"18_spark_{form}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
