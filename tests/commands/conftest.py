"""A command as a whole: how it ended and what it output."""

import logging
from collections.abc import Iterator

import pytest

from tests.commands.running import Run, exit_of


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        code = exit_of(*words)
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture(autouse=True)
def _no_handlers_left() -> Iterator[None]:
    """A command that serves logs to its stderr, which the test closes; a later test would log to it."""
    yield
    logging.getLogger("fencepost").handlers.clear()
    logging.getLogger("fencepost.streams").handlers.clear()
