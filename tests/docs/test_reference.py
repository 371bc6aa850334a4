"""The reference says what the code says: it is written from it, and nobody forgot to."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_reference_is_up_to_date() -> None:
    """`python docs/reference/generate.py` writes it."""
    ran = subprocess.run(
        [sys.executable, "docs/reference/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, ""), f"out of date:\n{ran.stdout}{ran.stderr}"
