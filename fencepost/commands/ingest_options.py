"""What the ingest commands share: options, the store they work on, and how what can go wrong ends."""

import functools
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.operating import refuse_memory
from fencepost.commands.output_files import TARGET, write_json
from fencepost.impl.cursor import CursorError
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import IngestError, InventoryError, Settings, SettingsError, StoreUnavailable
from fencepost.impl.ingest.settings import STANDARD_SETTINGS
from fencepost.impl.store import Store, open_store

ENV = SystemEnvironment()
OPTIONAL = ("starlette", "uvicorn", "httpx", "h11", "prometheus_client")
"""What the extra `ingest` installs."""

STORE = click.option(
    "--store", "url", required=True, metavar="URL", help="file:///directory or s3://bucket/prefix"
)
JSON = click.option(
    "--json", "json_file", type=TARGET, metavar="FILE", help="Write the result as JSON; - is standard output."
)
EVERY = click.option(
    "--every", "every_s", type=click.FloatRange(0.01), metavar="SECONDS", help="Go on for ever, this often."
)


def settings_options(act: Callable[..., Any]) -> Callable[..., Any]:
    """The times that all of one deployment must agree on."""
    for name, text in (
        ("overlap_s", "So far behind its cursor a reader looks again."),
        ("skew_bound_s", "So far apart may two clocks be."),
        ("landing_bound_s", "So long after it was sent a request may take effect."),
        ("horizon_s", "So long an acceptance may rely on a stored blob."),
    ):
        default = getattr(STANDARD_SETTINGS, name)
        flag = f"--{name.removesuffix('_s').replace('_', '-')}"
        act = click.option(
            flag, name, type=float, default=default, show_default=True, metavar="SECONDS", help=text
        )(act)
    return act


def settings_of(options: Mapping[str, Any], **more: Any) -> Settings:
    """The settings that `settings_options` gave."""
    names = ("horizon_s", "landing_bound_s", "skew_bound_s", "overlap_s")
    return Settings(**{name: options[name] for name in names}, **more)


def told(act: Callable[..., int]) -> Callable[..., int]:
    """Turn what ingest raises into one line and an exit code."""

    @functools.wraps(act)
    def run(*args: Any, **options: Any) -> int:
        try:
            return act(*args, **options)
        except (SettingsError, InventoryError) as error:
            raise BadRequest(str(error)) from error
        except StoreUnavailable as error:
            return say(f"{error}; run the command again", Exit.UNDECIDED)
        except (IngestError, CursorError) as error:
            return say(str(error), Exit.VIOLATED)
        except ModuleNotFoundError as missing:
            if (missing.name or "").split(".")[0] not in OPTIONAL:
                raise
            raise BadRequest(
                "the collector and the agent need more: pip install 'fencepost[ingest]'"
            ) from None

    return run


@contextmanager
def opened(url: str, *, makes: bool = False) -> Iterator[Store]:
    """The store at `url`, which must be there, but for who `makes` it: a collector makes a missing directory.

    Anybody else would look at a misspelt one, find nothing wrong in it, and say so every night.
    """
    refuse_memory(url)
    with open_store(url, ENV) as store:
        path = getattr(store, "path", None)
        if path is not None and not makes and not Path(path).exists():
            raise BadRequest(f"there is no directory {path}; correct --store: a collector makes it")
        store.verify()
        if path is not None and makes:
            Path(path).mkdir(parents=True, exist_ok=True)
        yield store


def repeatedly(once: Callable[[], int], every_s: float | None) -> int:
    """Once, or for ever until interrupted. A store that is away for a while ends nothing."""
    if every_s is None:
        return once()
    while True:
        try:
            once()
        except StoreUnavailable as error:
            say(f"{error}; trying again in {every_s:g} s", Exit.UNDECIDED)
        ENV.sleep(every_s)


def say(text: str, code: Exit) -> Exit:
    click.echo(f"fencepost: {' '.join(text.split())}", err=True)
    return code


def finish(found: Mapping[str, Any], text: str, json_file: str | None, code: int = Exit.HOLDS) -> int:
    """Say how it ended, and answer the exit code."""
    if text:
        stream = sys.stderr if json_file == "-" else sys.stdout
        stream.write(text if text.endswith("\n") else f"{text}\n")
        stream.flush()
    if json_file:
        write_json(found, json_file)
    return code


def as_text(found: Any) -> str:
    return json.dumps(found, indent=2, ensure_ascii=True) + "\n"


def log_to_stderr(*, verbose: bool) -> None:
    """One line a message, with its time; requests only when `verbose`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("fencepost")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    # What it says of broken requests is said to the sender; a log that any sender can fill serves nobody.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
