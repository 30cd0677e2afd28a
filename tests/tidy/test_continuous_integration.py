"""What continuous integration runs: ``make test-ci`` collects the tests in other languages too.

pytest leaves a file out that is named beside its folder, if its name does not begin as those of tests do. No failure
and no skipped test tells that.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATTERN = "python_files="
MAKE = ("make", "--no-print-directory", "-n", "test-ci")


def test_the_tests_in_other_languages_are_collected():
    recipe = subprocess.run(MAKE, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    *command, folder = shlex.split(recipe.splitlines()[-1])
    assert folder == "tests"
    (pattern,) = (word for word in command if word.startswith(PATTERN))
    files = [one for one in pattern.removeprefix(PATTERN).split() if "*" not in one]
    assert len(files) > 5
    folders = sorted({str(Path(one).parent) for one in files})
    asked = [*command, "-n", "0", "--collect-only", "-q", *folders]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    collected = {line.partition("::")[0] for line in found if "::" in line}
    assert [one for one in files if one not in collected] == []


def test_what_kills_and_faults_have_covered_is_in_the_summary_also_of_several_processes(tmp_path: Path):
    """CI prints this part once more at its end."""
    test = "test_a_flipped_bit_is_detected_and_costs_one_record_at_most"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "1",
        "-p",
        "no:cacheprovider",
        f"tests/faults/test_faults.py::{test}",
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "covered by kills and faults" in ran
    assert re.search(rf"^{test}\n  .*\brefused \d+", ran, re.MULTILINE)
    log = tmp_path / "log"
    log.write_text(f"before\n{ran}=== 1 passed ===\nbehind\n")
    [printing] = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("awk ")]
    command = ["bash", "-c", f"log={log}; {printing}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "covered by kills and faults" in shown[0]
    assert shown[1] == test
    assert not {"before", "behind"} & {*shown}
