"""Which engine explores: this process, or Spark, which is imported only when asked for."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fencepost.commands.exit_codes import BadRequest


def refuse_contradictions(
    engine: str, master: str | None, work: str | None, others: Mapping[str, object]
) -> None:
    """What an engine cannot be given."""
    if engine != "spark":
        for name, value in {"--master": master, "--work": work}.items():
            if value is not None:
                raise BadRequest(f"{name} belongs to --engine spark")
        return
    for name, value in others.items():
        if value:
            raise BadRequest(f"{name} runs on --engine local only")


@contextlib.contextmanager
def explorer(engine: str, master: str | None, work: str | None) -> Iterator[Callable[..., Any] | None]:
    """What `check` is to explore with; None for its own."""
    if engine != "spark":
        yield None
        return
    from fencepost.sim.spark import SparkAway, SparkEngine, start

    try:
        with (
            tempfile.TemporaryDirectory(prefix="fencepost-levels-", dir=_folder(work)) as folder,
            start(master or "", name="fencepost check") as session,
        ):
            yield SparkEngine(session, Path(folder))
    except SparkAway as error:
        raise BadRequest(str(error)) from error


def _folder(work: str | None) -> str | None:
    if work is not None and not Path(work).is_dir():
        raise BadRequest(f"--work {work} is no folder; give one that the driver and all workers see")
    return work
