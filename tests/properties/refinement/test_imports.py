"""The refinement package must work without the optional packages for traces and clusters."""

import subprocess
import sys


def test_reading_events_needs_neither_arrow_nor_spark() -> None:
    """An audit follows every run in the model, also where only the core dependencies are installed."""
    program = (
        "import sys, fencepost.properties.refinement; "
        "print([name for name in ('pyarrow', 'pyspark') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
