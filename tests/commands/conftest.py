"""A command as a whole: how it ended and what it output."""

import pytest

from tests.commands.running import Run, exit_of


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = exit_of(*words)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run
