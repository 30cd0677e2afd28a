"""What the connector brings into Spark's Python workers."""

import subprocess
import sys


def test_the_connector_imports_neither_trio_nor_the_client_that_needs_it():
    program = "import sys, pyspark_amqp10; print(*sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "amqp10.client_core.events" in shown
    assert {"trio", "amqp10.client"}.isdisjoint(shown)
