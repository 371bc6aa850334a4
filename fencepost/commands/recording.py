"""The options of servers and workers that record what they do, for `fencepost replay`."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.impl.recording.bodies import json_fields
from fencepost.impl.recording.files import Recorder
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.events import TraceFields
from fencepost.impl.store.interface import Store

_CHOSEN = "fencepost.record"
"""The folder of `--record`, in the context of a command."""


def _choose(context: click.Context, _: object, folder: str | None) -> str | None:
    context.meta[_CHOSEN] = folder
    return folder


_RECORD: dict[str, Any] = {
    "metavar": "DIR",
    "envvar": "FENCEPOST_RECORD",
    "help": "Record every request in files there, for `fencepost replay`.",
}
record_option = click.option("--record", "record", **_RECORD)
record_store_option = click.option("--record", **_RECORD, expose_value=False, callback=_choose)
"""For a command that opens its store by `recorded_store`, which finds the value."""
fields_option = click.option(
    "--record-fields",
    "record_fields",
    multiple=True,
    metavar="KEYS=NAMES",
    help="Record fields of JSON bodies: a pattern of keys, and names with commas between (none: all).",
)
process_option = click.option(
    "--record-process", "record_process", metavar="HEADER", help="Header with the name of the client."
)


def recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a server that sees the requests of clients."""
    for option in (process_option, fields_option, record_option):
        command = option(command)
    return command


def open_recorder(folder: str | None, process: str) -> Recorder | None:
    """Open the recorder that `--record` names; None without the option."""
    if folder is None:
        return None
    try:
        return Recorder(folder, process)
    except (Unusable, ValueError) as error:
        raise BadRequest(f"--record {folder}: {error}") from error


def http_recording(options: Mapping[str, Any], process: str, domain: str = "") -> Any:
    """Return the recording of a server that `--record` names; None without the option."""
    from fencepost.impl.recording.http import HttpRecording

    fields = read_fields(options["record_fields"])
    recorder = open_recorder(options["record"], process)
    if recorder is None:
        if options["record_fields"] or options["record_process"]:
            raise BadRequest("--record-fields and --record-process belong to --record")
        return None
    return HttpRecording(
        recorder, trace_fields=fields, process_header=options["record_process"] or "", domain=domain
    )


def recorded_store(store: Store, name: str, system: str, folder: str | None = None) -> Store:
    """The store of a system, recorded in the folder of `--record`, if it was given. `name`, its URL or path,
    names the run.
    """
    context = click.get_current_context(silent=True)
    if folder is None and context is not None:
        folder = context.meta.get(_CHOSEN)
    recorder = open_recorder(folder, "")
    if recorder is None:
        return store
    from fencepost.impl.recording.layer import RecordedStore
    from fencepost.sim.systems import SYSTEMS, load

    parts = urlsplit(name)
    place = f"{parts.netloc}{parts.path}".strip("/") if parts.scheme == "s3" else parts.path
    fields: TraceFields = load(SYSTEMS[system].trace_fields)
    return RecordedStore(store, recorder, run=place.rstrip("/").rpartition("/")[2], trace_fields=fields)


def read_fields(words: tuple[str, ...]) -> TraceFields | None:
    """`claims/.+=state,attempt`, several times."""
    if not words:
        return None
    chosen = {}
    for word in words:
        keys, equals, names = word.rpartition("=")
        if not equals or not keys:
            raise BadRequest(f"--record-fields {word} must read KEYS=NAMES, as in 'claims/.+=state,attempt'")
        chosen[keys] = tuple(name for name in names.split(",") if name)
    try:
        return json_fields(chosen)
    except ValueError as error:
        raise BadRequest(f"--record-fields: {error}") from None
