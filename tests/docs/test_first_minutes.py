"""The transcript of a first session is what the script types, and what is printed."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
SCRIPT = DOCS / "first_minutes.py"


def test_the_page_has_every_command_and_file_of_the_script() -> None:
    """An edit of the page by hand, or of the script without a run, is caught without typing anything."""
    page = (DOCS / "first-minutes.md").read_text()
    session = runpy.run_path(str(SCRIPT))["SESSION"]
    assert page.count("```text") == len(session)
    for typed in session:
        assert f"$ {typed.command}\n" in page
        assert typed.text in page
    assert "violated: a schedule of 2 processes" in page
    assert "holds: every schedule of 2 processes" in page


def test_progress_and_colours_are_not_on_the_page() -> None:
    lines = runpy.run_path(str(SCRIPT))["lines"]
    assert [*lines("\x1b[1mholds\x1b[0m: x\r\n\u280b depth 3\r\n12 of 40\rdone\r\n\r\n")] == [
        "holds: x",
        "done",
    ]


@pytest.mark.server
@pytest.mark.slow
def test_typing_it_again_gives_the_same_page() -> None:
    ended = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
