"""What continuous integration runs: ``make test-ci`` collects the tests in other languages too.

pytest leaves a file out that is named beside its folder, if its name does not begin as those of tests do. No failure
and no skipped test tells that.
"""

import shlex
import subprocess
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
