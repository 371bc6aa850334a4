"""`fencepost catalog verify`, `repair`, `cleanup`, `compact`."""

import dataclasses

import click

from fencepost.commands.catalog.group import AUTHOR, BRANCH, reading, subcommand, writing
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.operating import Result
from fencepost.impl.publish import Damaged, StaleView, verify
from fencepost.impl.publish.catalog import KEEP


@subcommand(
    "verify",
    "Check everything that is retained.",
    click.option("--branch", metavar="BRANCH", help="Only this one.  [default: all]"),
)
def verify_command(url: str, branch: str | None) -> Result:
    """Check the chain, the pinned versions, the fragments and their hashes, and every edge."""
    manifests, faults = 0, list[str]()
    with reading(url) as catalog:
        names = [branch] if branch else catalog.branches()
    for name in names:
        try:
            with reading(url, name) as catalog:
                found = verify(catalog)
        except (Damaged, StaleView) as error:
            faults.append(f"{name}: {error}")
            continue
        manifests += found.manifests
        faults += [f"{name}: {fault}" for fault in found.faults]
    verdict = "violated" if faults else "holds"
    text = "".join(f"{fault}\n" for fault in faults)
    text += f"{verdict}: {len(names)} branches, {manifests} manifests, {len(faults)} faults"
    result = {"verdict": verdict, "branches": names, "manifests": manifests, "faults": faults}
    return Result(result, text, Exit.VIOLATED if faults else Exit.HOLDS)


@subcommand("repair", "Take over, and settle what dead writers left.", BRANCH, AUTHOR)
def repair(url: str, branch: str, author: str | None) -> Result:
    """Fence every writer of the branch, then settle unfinished plans: complete ones forward, others back."""
    with writing(url, author, branch) as catalog:
        notices = catalog.repair()
        epoch = catalog.epoch
    lines = [f"plan {notice.plan}: {notice.text}" for notice in notices]
    lines.append(f"branch {branch} is at epoch {epoch}; earlier writers are fenced")
    left = any(notice.done == "left" for notice in notices)
    settled = [dataclasses.asdict(notice) for notice in notices]
    found = {"branch": branch, "epoch": epoch, "settled": settled}
    return Result(found, "\n".join(lines), Exit.UNDECIDED if left else Exit.HOLDS)


@subcommand(
    "cleanup",
    "Delete what only old manifests need.",
    click.option(
        "--keep", type=click.IntRange(1), default=KEEP, show_default=True, help="Manifests per branch."
    ),
    AUTHOR,
)
def cleanup(url: str, keep: int, author: str | None) -> Result:
    """Retain the newest manifests of every branch and what they need; delete the rest."""
    with writing(url, author) as catalog:
        found = dataclasses.asdict(catalog.cleanup(keep=keep))
    text = "deleted {manifests} manifests, {versions} versions, {fragments} fragments".format(**found)
    return Result({"keep": keep, **found}, text)


@subcommand(
    "compact",
    "Store tables as one fragment each.",
    click.argument("tables", metavar="[TABLE...]", nargs=-1),
    BRANCH,
    AUTHOR,
)
def compact(url: str, tables: tuple[str, ...], branch: str, author: str | None) -> Result:
    """Rewrite each TABLE (by default all) as one Parquet file with the same rows."""
    with writing(url, author, branch) as catalog:
        existing = catalog.snapshot().tables
        unknown = [table for table in tables if table not in existing]
        if unknown:
            raise BadRequest(
                f"branch {branch} has no table {unknown[0]!r}; it has: {', '.join(existing) or 'none'}"
            )
        done = [catalog.compact(table) for table in tables or existing]
    lines = [f"{one.table}: {one.runs} runs, {one.text}" for one in done]
    code = Exit.HOLDS if all(one.done for one in done) else Exit.UNDECIDED
    found = {"branch": branch, "tables": [dataclasses.asdict(one) for one in done]}
    return Result(found, "\n".join(lines), code)
