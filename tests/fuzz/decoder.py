"""Coverage-guided fuzzing of the decoder, by atheris: ``python tests/fuzz/decoder.py -max_total_time=60``.

It starts from the byte vectors of ``tests/wire`` and keeps the inputs that reached new code. ``decoder_checks.py`` says
what no input may cause. The ordinary test beside it makes the same checks on a small scale.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / "artefacts" / "fuzz" / "decoder"


def main() -> None:
    import atheris

    sys.path.insert(0, str(ROOT))
    # Imported here and not above, because only modules that are imported under this guard report their coverage.
    with atheris.instrument_imports(include=["amqp10"]):
        from tests.fuzz.decoder_checks import check, seeds
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds()):
        check(data)
        (CORPUS / f"seed-{number}").write_bytes(data)
    atheris.Setup([*sys.argv, str(CORPUS)], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
