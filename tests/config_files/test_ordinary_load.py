"""Some seconds of the load of ``python -m tests.soak.ordinary``, with a real Prometheus and the rules as they are."""

from pathlib import Path

import pytest

from tests.soak.ordinary import ordinary


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_ordinary_load_begins_and_ends_without_an_alert(
    prometheus_program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert ordinary(tmp_path, prometheus_program, hours=20 / 3600)
    printed = capsys.readouterr().out
    assert "no alert has fired" in printed
    assert "'mistyped passwords': 1" in printed
