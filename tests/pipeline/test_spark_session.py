"""The Spark session that the tests of the pipeline share: its limits, and what is said where it cannot be had."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.jobs.session import CONFIGURED_BY, is_configured
from tests.kit.broker_process import ROOT

THIS_MODULE = str(Path(__file__).relative_to(ROOT))
WITHOUT_SPARK = f"""
import sys, pytest
sys.modules["pyspark"] = None  # as if it were not installed
sys.exit(pytest.main(["-p", "no:cacheprovider", "-rs", {THIS_MODULE!r}]))
"""
LISTENS = "test_the_session_listens_on_the_loopback_interface_only_and_runs_python"


@pytest.mark.slow
def test_the_session_listens_on_the_loopback_interface_only_and_runs_python(spark: SparkSession):
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    doubled = spark.range(10).mapInPandas(lambda frames: (frame * 2 for frame in frames), "id long")
    assert [row.id for row in doubled.collect()] == list(range(0, 20, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "java_home", "said"),
    [
        (["-c", WITHOUT_SPARK], None, "not installed: pyspark; make test installs it where there is Java 17 or newer"),
        (
            ["-m", "pytest", "-p", "no:cacheprovider", "-rs", f"{THIS_MODULE}::{LISTENS}"],
            "/nonexistent",
            "Spark cannot run: there is no Java in JAVA_HOME=/nonexistent; install Java 17 or newer",
        ),
    ],
    ids=["without pyspark", "without Java"],
)
def test_without_spark_tests_are_skipped_and_say_why(words: list[str], java_home: str | None, said: str):
    environ = os.environ if java_home is None else os.environ | {"JAVA_HOME": java_home}
    ran = subprocess.run([sys.executable, *words], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)
    assert "1 skipped in" in ran.stdout, ran.stdout
    assert said in " ".join(ran.stdout.split())


@pytest.mark.parametrize("name", CONFIGURED_BY)
def test_options_of_java_that_a_user_may_have_given_stay(name: str):
    assert is_configured({name: "-XX:+UseSerialGC"})
    assert not is_configured({name: ""})


def test_without_them_a_job_chooses_the_garbage_collector():
    assert not is_configured({"PATH": "/bin", "JAVA_HOME": "/java"})
