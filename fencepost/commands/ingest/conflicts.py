"""`fencepost ingest conflicts` and `blocks`: decisions of an operator."""

import datetime as dt
from dataclasses import asdict

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.ingest.group import BY, ENV, NOTE, STORE, command, names_from_user, opened, subcommand
from fencepost.commands.operating import Result, format_table, user_name
from fencepost.impl.ingest import operator
from fencepost.impl.ingest.keys import Identity, agent_path, boot_path

AGENT = click.argument("agent")
BOOT = click.argument("boot", required=False)


@command.group("conflicts", short_help="Batches whose identity was taken.")
def conflicts() -> None:
    """List and resolve conflicts: other bytes had been accepted under the same identity before."""


@subcommand(
    "list",
    "Conflicts that need a decision.",
    STORE,
    click.option("--agent", metavar="NAME", help="Only conflicts of this agent."),
    click.option("--all", "every", is_flag=True, help="Also decided conflicts."),
    group=conflicts,
)
def list_conflicts(url: str, agent: str | None, every: bool) -> Result:
    """List conflicts with both hashes; exit code 1 when some need a decision."""
    _check(agent, None)
    with opened(url) as store:
        found = list(operator.conflicts(store, ENV, agent=agent))
    undecided = [seen for seen in found if seen.resolution is None]
    listed = found if every else undecided
    names = ("agent", "boot", "from", "to", "accepted", "submitted", "first seen", "decision")
    text = format_table(names, [_row(seen) for seen in listed]) if listed else "no conflicts"
    if not listed and not every:
        text += " need a decision"
    code = Exit.VIOLATED if undecided else Exit.HOLDS
    return Result({"conflicts": [seen.to_json() for seen in listed]}, text, code)


def _row(seen: operator.ConflictSeen) -> list[str]:
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


@subcommand(
    "resolve",
    "Keep the accepted batch.",
    STORE,
    AGENT,
    click.argument("boot"),
    click.argument("seq_start", type=int),
    click.argument("seq_end", type=int),
    click.option(
        "--sha256", default="", help="Hash of the submitted frame, or its start, if there are several."
    ),
    NOTE,
    BY,
    group=conflicts,
)
def resolve(
    url: str, agent: str, boot: str, seq_start: int, seq_end: int, sha256: str, note: str, by: str | None
) -> Result:
    """Decide to keep the accepted batch. The agent drops its parked one at its next request. To distrust the
    agent instead, see `blocks add`. The first decision is final.
    """
    with names_from_user():
        identity = Identity(agent, boot, seq_start, seq_end)
    with opened(url) as store:
        found = [
            seen
            for seen in operator.conflicts(store, ENV, agent=agent)
            if seen.record.identity == identity and seen.record.submitted_frame_sha256.startswith(sha256)
        ]
        if not found:
            raise BadRequest(
                f"there is no such conflict of {identity}; see fencepost ingest conflicts list --all"
            )
        submitted = found[0].record.submitted_frame_sha256
        if len(found) > 1:
            raise BadRequest(
                f"{len(found)} frames were submitted as {identity}; choose one: --sha256 {submitted[:12]}"
            )
        made = operator.resolve(store, ENV, identity, submitted, by=by or user_name(), note=note)
    text = f"{identity}: {made.decision}, by {made.by}"
    if found[0].resolution is not None:
        text += f": decided before, and final ({made.note or 'no note'})"
    return Result({"identity": str(identity), "submitted_frame_sha256": submitted, **asdict(made)}, text)


@command.group("blocks", short_help="Quarantined agents.")
def blocks() -> None:
    """Quarantine an agent, or one boot of it: collectors refuse its batches, and it keeps them."""


@subcommand("list", "List the quarantined.", STORE, group=blocks)
def list_blocks(url: str) -> Result:
    """List quarantined agents and boots."""
    with opened(url) as store:
        found = list(operator.blocks(store, ENV))
    rows = [[block.agent, block.boot or "(all)", block.by, block.note] for block in found]
    text = format_table(("agent", "boot", "by", "note"), rows) if rows else "no agent is quarantined"
    return Result({"blocks": [asdict(block) for block in found]}, text)


@subcommand("add", "Quarantine an agent or a boot.", STORE, AGENT, BOOT, NOTE, BY, group=blocks, json=False)
def add_block(url: str, agent: str, boot: str | None, note: str, by: str | None) -> Result:
    """Refuse all batches of AGENT, or only of its BOOT. Collectors notice within seconds."""
    _check(agent, boot)
    with opened(url) as store:
        operator.quarantine(store, ENV, agent, boot, by=by or user_name(), note=note)
    return Result({}, f"{_describe(agent, boot)} is quarantined")


@subcommand("remove", "End a quarantine.", STORE, AGENT, BOOT, group=blocks, json=False)
def remove_block(url: str, agent: str, boot: str | None) -> Result:
    """Accept the batches of AGENT, or of its BOOT, again."""
    _check(agent, boot)
    with opened(url) as store:
        if not operator.release(store, ENV, agent, boot):
            raise BadRequest(f"{_describe(agent, boot)} is not quarantined; see fencepost ingest blocks list")
    return Result({}, f"{_describe(agent, boot)} is released")


def _check(agent: str | None, boot: str | None) -> None:
    with names_from_user():
        if agent is not None:
            agent_path(agent) if boot is None else boot_path(agent, boot)


def _describe(agent: str, boot: str | None) -> str:
    return f"agent {agent}" if boot is None else f"boot {boot} of agent {agent}"
