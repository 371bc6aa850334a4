"""An error in a worker comes out as one sentence, not as pages of traces."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

GROWS = """
from fencepost.model import Int, Machine, action

class Grows(Machine):
    n = Int(0, 3)

    @action
    def grow(s):
        s.n = s.n + 1
"""


def test_a_mistake_of_the_model_is_reported_as_by_the_local_engine(tmp_path: Path) -> None:
    (tmp_path / "grows.py").write_text(GROWS)
    outputs = []
    for engine in ("local", "spark"):
        words = [sys.executable, "-m", "fencepost", "check", "grows.py:Grows", "--engine", engine]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        assert done.returncode == 2
        outputs.append(done.stderr)
    here, there = outputs
    assert "in grow()" in here or "grow" in here
    assert there.count("\n") == 1
    assert here.removeprefix("fencepost: ").strip()[:60] in there
