"""A check of a small model must start in well under a second, so the interface loads nothing heavy."""

import subprocess
import sys


def test_the_interface_loads_no_heavy_library() -> None:
    heavy = ["networkx", "hypothesis", "matplotlib", "boto3", "pyspark", "pandas"]
    code = f"import sys, fencepost.model; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
