"""`fencepost ingest`: batches from many agents, accepted once, by any of several collectors.

A group of small commands over `fencepost.impl.ingest`. The collector is in `ingest_serve`, the agent in
`ingest_send`, what works behind the collectors in `ingest_maintenance`, what people decide in `ingest_desk`.
"""

import click

from fencepost.commands import ingest_desk, ingest_maintenance, ingest_send, ingest_serve

EPILOG = """Exit codes: 0 done, 1 something is lost, damaged or parked: somebody must look, 2 the request made
no sense, 3 not finished: run it again. Example: fencepost ingest enrol tokens.json agent-a, then fencepost
ingest serve --store file:///data/metrics --agents tokens.json."""


@click.group("ingest", short_help="Accept batches once, by any of several collectors.", epilog=EPILOG)
def command() -> None:
    """Agents send batches to any of several collectors; the only thing these share is a bucket, and the
    creation of a small object in it is the only moment at which a batch becomes accepted.

    Collectors (`serve`) keep the indexes and rollups in order on their own, whoever of them is killed; so do
    `maintenance`, or `reconcile` and `rollup`, where none of them shall. `reconcile` finds batches by their
    place
    in time; one whose collector died before it wrote that is found by the search of `serve` and `maintenance`
    within hours, or by `audit` at once. Nothing is deleted but by `gc`, and only after an `audit`.
    """


for _part in (ingest_serve, ingest_send, ingest_maintenance, ingest_desk):
    for _command in _part.COMMANDS:
        command.add_command(_command)
