"""Settings of a server that operators also give by variables: logs, spans, ages, index, address."""

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.messages import LogLine
from fencepost.commands.operating import Parameter
from fencepost.impl.environment import Environment
from fencepost.impl.store.errors import Misuse

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
ENDPOINT = "http://localhost:4318"


def _option(name: str, variable: str, *names: str, **settings: Any) -> Parameter:
    return click.option(name, *names, envvar=variable, show_envvar=True, **settings)


def _usual_form() -> str:
    return "text" if os.environ.get("ENVIRONMENT", "development") == "development" else "json"


def _linger_s() -> float | str:
    """Return the default of --linger: the variable has milliseconds, as others that share its name expect."""
    text = os.environ.get("SYNC_LINGER_MS", "5")
    try:
        return float(text) / 1000
    except ValueError:
        return text  # which click refuses


OPERATING: tuple[Parameter, ...] = (
    _option(
        "--log-level", "LOG_LEVEL", type=click.Choice(LEVELS, case_sensitive=False), default="warning",
        show_default=True, help="Log from this level on; info has a line for each request.",
    ),
    _option(
        "--log-format", "LOG_FORMAT", type=click.Choice(FORMATS, case_sensitive=False), default=_usual_form,
        help="Form of the log.  [default: json if ENVIRONMENT is set, and not to development; else text]",
    ),
    _option("--index-dir", "OBJECTS_INDEX_DIR", metavar="FOLDER", help="Keep the listing index there."),
    click.option(
        "--linger", "linger_s", metavar="SECONDS", type=click.FloatRange(0, 1), default=_linger_s,
        help="Maximum time a flush waits for others to share it; 0 for no wait.  "
        "[env var: SYNC_LINGER_MS, in milliseconds; default: 0.005]",
    ),
    _option(
        "--temp-age", "GC_TEMP_TTL_SECS", "temp_age_s", metavar="SECONDS", type=click.FloatRange(1),
        default=3600.0, show_default=True, help="Remove temporary files of dead writers at this age.",
    ),
    _option(
        "--upload-age", "GC_MULTIPART_TTL_SECS", "upload_age_s", metavar="SECONDS", type=click.FloatRange(1),
        default=86_400.0, show_default=True, help="Remove uploads that nobody touched for so long.",
    ),
    _option("--url", "OBJECTS_URL", metavar="URL", help="Address of the server in responses that name one."),
    _option("--otlp/--no-otlp", "OTLP_ENABLED", default=False, help="Export spans of requests (OTLP, HTTP)."),
    _option(
        "--otlp-endpoint", "OTLP_ENDPOINT", metavar="URL", default=ENDPOINT, show_default=True,
        help="Where to; /v1/traces is added.",
    ),
    _option(
        "--otlp-sample-rate", "OTLP_SAMPLE_RATE", metavar="SHARE", type=click.FloatRange(0, 1), default=0.1,
        show_default=True, help="Share of the requests without a parent that are exported.",
    ),
)  # fmt: skip


def check_settings(options: dict[str, Any]) -> None:
    """Raise BadRequest for an address or an endpoint that is none, before anything is bound or forked."""
    url = options["url"]
    if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc or "?" in url):
        raise BadRequest(f"--url {url!a} is no address; give one as https://objects.example.com")
    if options["otlp"]:
        from fencepost.impl.environment import SeededEnvironment

        _spans(options, SeededEnvironment()).close()


def settings_of_buckets(directory: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of `Buckets`, once the index is where it shall be."""
    from fencepost.impl.objects.index import place

    try:
        place(directory, options["index_dir"])
    except (Misuse, OSError) as error:
        raise BadRequest(f"--index-dir: {error}") from None
    return {
        "linger_ms": options["linger_s"] * 1000,
        "temp_age_s": options["temp_age_s"],
        "url": options["url"] or "",
    }


@contextlib.contextmanager
def exported(service: Any, options: dict[str, Any], env: Environment) -> Iterator[None]:
    """Export the spans of a service, if that is wanted."""
    if not options["otlp"]:
        yield
        return
    service.spans = _spans(options, env)
    try:
        yield
    finally:
        service.spans.close()


def _spans(options: dict[str, Any], env: Environment) -> Any:
    from fencepost.impl.http.spans import Spans

    try:
        return Spans(options["otlp_endpoint"], options["otlp_sample_rate"], "fencepost-objects", env)
    except ValueError as error:
        raise BadRequest(f"--otlp-endpoint: {error}") from None


# The log.


@contextlib.contextmanager
def logged(options: dict[str, Any]) -> Iterator[None]:
    """Write the log to stderr in the form that is wanted, from the level that is wanted."""
    logger = logging.getLogger("fencepost")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLine() if options["log_format"] == "json" else LogLine())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(options["log_level"].upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class JsonLine(logging.Formatter):
    """Formats a message as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
