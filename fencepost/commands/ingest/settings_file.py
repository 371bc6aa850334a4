"""A file with the settings of a deployment of ingest, which all its commands can share.

    [ingest]
    store = "s3://metrics/prod"
    acceptance = "s3_manifest"
    object_landing_interval_ms = 5000
    horizon_ms = 86_400_000

Times are in milliseconds. A command takes the settings that it has an option for. Options on the command line
win. A key that no command knows is refused, so that a spelling mistake does not pass for a setting.
"""

import math
import tomllib
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest

TEXTS = {"store": "url", "acceptance": "acceptance", "spool": "spool", "collector_id": "collector_id"}
TIMES = {
    "object_landing_interval_ms": "landing_s",
    "maintenance_interval_ms": "maintenance_s",
    "search_interval_ms": "search_s",
    "horizon_ms": "horizon_s",
    "landing_bound_ms": "landing_bound_s",
    "skew_bound_ms": "skew_bound_s",
    "overlap_ms": "overlap_s",
}
"""The parameter of a command, which is in seconds, by the name of the setting."""


def read_settings(file: str) -> dict[str, Any]:
    """The values of parameters, by their names; raises `BadRequest` with one line."""
    try:
        whole = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise BadRequest(f"{file} is no TOML: {str(error).splitlines()[0]}") from None
    table = whole.get("ingest")
    if not isinstance(table, dict) or len(whole) > 1:
        raise BadRequest(f"{file} has to have one table, [ingest], and nothing else")
    return dict(_parameter(file, key, value) for key, value in table.items())


def _parameter(file: str, key: str, value: Any) -> tuple[str, Any]:
    if key in TEXTS:
        if not isinstance(value, str):
            raise BadRequest(f"{file}: {key} is {_shown(value)}; write a text")
        return TEXTS[key], value
    if key in TIMES:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0:
            raise BadRequest(f"{file}: {key} is {_shown(value)}; write milliseconds, as a number from 0 on")
        return TIMES[key], value / 1000
    raise BadRequest(f"{file}: {key[:80]!r} is no setting; known are {', '.join([*TEXTS, *TIMES])}")


def _shown(value: Any) -> str:
    return ascii(value)[:80]


def _read(context: click.Context, _: click.Parameter, file: str | None) -> None:
    if file is not None:
        context.default_map = {**(context.default_map or {}), **read_settings(file)}


SETTINGS_FILE = click.option(
    "--settings",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_read,
    help="Take what is not given here from [ingest] in this TOML file; times are in milliseconds.",
)
