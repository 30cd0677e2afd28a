"""Coverage-guided fuzzing of a whole AMQP 0.9.1 connection, by atheris:
``python -m tests.fuzz.connection091 -max_total_time=60``.

It starts from valid scripts and keeps the inputs that reached new code. ``connection091_checks.py`` says what a script
is, and what must hold for every script. The ordinary test beside it makes the same checks on a small scale.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / "artefacts" / "fuzz" / "connection091"


def main() -> None:
    import atheris

    sys.path.insert(0, str(ROOT))
    # Imported here and not above, because only modules that are imported under this guard report their coverage.
    with atheris.instrument_imports(include=["core.amqp091", "core.engine"]):
        from tests.fuzz.connection091_checks import check, mutated, seeds
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*seeds(), *mutated(seed=0, count=100)]):
        check(data)
        (CORPUS / f"seed-{number}").write_bytes(data)
    atheris.Setup([*sys.argv, str(CORPUS)], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
