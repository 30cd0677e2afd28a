"""What the programs say about packages that are missing can be done: no package of this project is published yet."""

import re
import tomllib

from packaging.requirements import Requirement

from tests.kit.broker_process import ROOT

HINT = re.compile(r"""pip install ((?:'[^']+' ?)+)""")
IN_A_CHECKOUT = ("amqp10/cli/pipeline.py",)
"""It names the extra of a checkout."""


def test_each_hint_names_requirements_of_an_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    required = {Requirement(one) for wanted in extras.values() for one in wanted}
    hints = {
        (path.name, one)
        for folder in ("amqp10", "core")
        for path in (ROOT / folder).rglob("*.py")
        if str(path.relative_to(ROOT)) not in IN_A_CHECKOUT
        for words in HINT.findall(path.read_text("utf-8"))
        for one in re.findall(r"'([^']+)'", words)
    }
    assert len(hints) >= 7
    assert {(name, one) for name, one in hints if Requirement(one) not in required} == set()
