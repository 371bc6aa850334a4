"""`fencepost ingest conflicts` and `blocks`: what only a person can decide."""

import datetime as dt
import getpass
from dataclasses import asdict
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.ingest_options import ENV, JSON, STORE, finish, opened, told
from fencepost.commands.operating import format_table
from fencepost.impl.ingest import operator
from fencepost.impl.ingest.errors import IdentityError
from fencepost.impl.ingest.keys import Identity, agent_path, boot_path

NOTE = click.option("--note", default="", help="Why; it is kept with the decision.")
BY = click.option("--by", metavar="NAME", help="Who decides.  [default: your user name]")


@click.group("conflicts", short_help="Batches that came under a name that is taken.")
def conflicts() -> None:
    """See and settle conflicts: other bytes had been accepted under the same identity before."""


@conflicts.command("list", short_help="What waits for a decision.")
@STORE
@click.option("--agent", help="Only this one's.")
@click.option("--all", "every", is_flag=True, help="Also those that are decided.")
@JSON
@told
def list_conflicts(url: str, agent: str | None, every: bool, json_file: str | None) -> int:
    """List conflicts with both hashes; exit code 1 when some wait for a decision."""
    _check(agent, None)
    with opened(url) as store:
        found = list(operator.conflicts(store, ENV, agent=agent))
    waiting = [seen for seen in found if seen.resolution is None]
    shown = found if every else waiting
    rows = [_line(seen) for seen in shown]
    names = ("agent", "boot", "from", "to", "accepted", "submitted", "first seen", "decision")
    text = (
        format_table(names, rows) if rows else "no conflicts" if every else "no conflicts wait for a decision"
    )
    told_json = [{**asdict(seen.record), "resolution": _plain(seen.resolution)} for seen in shown]
    return finish({"conflicts": told_json}, text, json_file, Exit.VIOLATED if waiting else Exit.HOLDS)


def _line(seen: operator.ConflictSeen) -> list[str]:
    record = seen.record
    time = dt.datetime.fromtimestamp(seen.first_seen_ns / 1e9, tz=dt.UTC)
    return [
        record.agent_id,
        record.boot_id,
        str(record.seq_start),
        str(record.seq_end),
        record.accepted_frame_sha256[:12],
        record.submitted_frame_sha256[:12],
        f"{time:%Y-%m-%d %H:%M:%S}",
        seen.resolution.decision if seen.resolution else "-",
    ]


@conflicts.command("resolve", short_help="What was accepted stands.")
@STORE
@click.argument("agent")
@click.argument("boot")
@click.argument("seq_start", type=int)
@click.argument("seq_end", type=int)
@click.option("--sha256", default="", help="Of the submitted frame, or its start, when there are several.")
@NOTE
@BY
@JSON
@told
def resolve(
    url: str,
    agent: str,
    boot: str,
    seq_start: int,
    seq_end: int,
    sha256: str,
    note: str,
    by: str | None,
    json_file: str | None,
) -> int:
    """Decide that the batch that was accepted stands. The agent drops the one it has put aside when it asks
    next. To distrust the agent instead, see `blocks add`. The first decision stands.
    """
    try:
        identity = Identity(agent, boot, seq_start, seq_end)
    except IdentityError as error:
        raise BadRequest(str(error)) from None
    with opened(url) as store:
        full = _submitted(store, identity, sha256)
        before = operator.resolution_of(store, ENV, identity, full)
        done = operator.resolve(store, ENV, identity, full, by=by or _whoever(), note=note)
    text = f"{identity}: {done.decision}, by {done.by}"
    if before is not None:
        text += f": was decided before, and that stands ({done.note or 'no note'})"
    return finish(
        {"identity": str(identity), "submitted_frame_sha256": full, **asdict(done)}, text, json_file
    )


def _submitted(store: Any, identity: Identity, start: str) -> str:
    """The hash of the one conflict that is meant."""
    found = [
        seen.record.submitted_frame_sha256
        for seen in operator.conflicts(store, ENV, agent=identity.agent)
        if seen.record.identity == identity and seen.record.submitted_frame_sha256.startswith(start)
    ]
    if not found:
        raise BadRequest(
            f"there is no such conflict of {identity}; see fencepost ingest conflicts list --all"
        )
    if len(found) > 1:
        raise BadRequest(
            f"{len(found)} frames were submitted as {identity}; say which: --sha256 {found[0][:12]}"
        )
    return found[0]


@click.group("blocks", short_help="Agents that are not believed.")
def blocks() -> None:
    """Quarantine an agent, or one boot of it: collectors refuse what it sends, and it keeps its batches."""


@blocks.command("list", short_help="Who is quarantined.")
@STORE
@JSON
@told
def list_blocks(url: str, json_file: str | None) -> int:
    """List agents and boots that are quarantined."""
    with opened(url) as store:
        found = list(operator.blocks(store, ENV))
    rows = [[block.agent, block.boot or "(all)", block.by, block.note] for block in found]
    text = format_table(("agent", "boot", "by", "note"), rows) if rows else "nobody is quarantined"
    return finish({"blocks": [asdict(block) for block in found]}, text, json_file)


@blocks.command("add", short_help="Quarantine an agent or a boot.")
@STORE
@click.argument("agent")
@click.argument("boot", required=False)
@NOTE
@BY
@told
def add_block(url: str, agent: str, boot: str | None, note: str, by: str | None) -> int:
    """Refuse whatever AGENT, or only its BOOT, sends. Collectors know within seconds."""
    _check(agent, boot)
    with opened(url) as store:
        operator.quarantine(store, ENV, agent, boot, by=by or _whoever(), note=note)
    return finish({}, f"{_named(agent, boot)} is quarantined", None)


@blocks.command("remove", short_help="Believe it again.")
@STORE
@click.argument("agent")
@click.argument("boot", required=False)
@told
def remove_block(url: str, agent: str, boot: str | None) -> int:
    """Take what AGENT, or its BOOT, sends again."""
    _check(agent, boot)
    with opened(url) as store:
        if not operator.release(store, ENV, agent, boot):
            raise BadRequest(f"{_named(agent, boot)} is not quarantined; see fencepost ingest blocks list")
    return finish({}, f"{_named(agent, boot)} is believed again", None)


def _check(agent: str | None, boot: str | None) -> None:
    try:
        if agent is not None:
            agent_path(agent) if boot is None else boot_path(agent, boot)
    except IdentityError as error:
        raise BadRequest(str(error)) from None


def _named(agent: str, boot: str | None) -> str:
    return f"agent {agent}" if boot is None else f"boot {boot} of agent {agent}"


def _plain(resolution: operator.Resolution | None) -> dict[str, Any] | None:
    return None if resolution is None else asdict(resolution)


def _whoever() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


COMMANDS = (conflicts, blocks)
