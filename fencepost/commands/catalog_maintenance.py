"""`fencepost catalog verify`, `repair`, `cleanup`, `compact`."""

import dataclasses

import click

from fencepost.commands.catalog_open import reading, told, writing
from fencepost.commands.catalog_options import AUTHOR, BRANCH, JSON, finish
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.impl.publish import Damaged, StaleView, verify
from fencepost.impl.publish.catalog import KEEP


@click.command("verify", short_help="Check everything that is retained.")
@click.argument("url")
@click.option("--branch", help="Only this one.  [default: all]")
@JSON
@told
def verify_command(url: str, branch: str | None, json_file: str | None) -> int:
    """Check the chain, pinned versions, fragments and their hashes, and every edge of all that is kept."""
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
    result = {"url": url, "verdict": verdict, "branches": names, "manifests": manifests, "faults": faults}
    return finish(result, text, json_file, Exit.VIOLATED if faults else Exit.HOLDS)


@click.command("repair", short_help="Take over and settle what dead writers left.")
@click.argument("url")
@BRANCH
@AUTHOR
@JSON
@told
def repair(url: str, branch: str, author: str | None, json_file: str | None) -> int:
    """Fence every writer of the branch, then settle what was begun: whole plans forward, others back."""
    with writing(url, author, branch) as catalog:
        notices = catalog.repair()
        result = {"url": url, "branch": branch, "epoch": catalog.epoch}
    lines = [f"plan {notice.plan}: {notice.text}" for notice in notices]
    lines.append(f"branch {branch} is at epoch {result['epoch']}; earlier writers are fenced")
    left = any(notice.done == "left" for notice in notices)
    found = {**result, "settled": [dataclasses.asdict(notice) for notice in notices]}
    return finish(found, "\n".join(lines), json_file, Exit.UNDECIDED if left else Exit.HOLDS)


@click.command("cleanup", short_help="Delete what old manifests alone need.")
@click.argument("url")
@click.option("--keep", type=click.IntRange(1), default=KEEP, show_default=True, help="Manifests a branch.")
@AUTHOR
@JSON
@told
def cleanup(url: str, keep: int, author: str | None, json_file: str | None) -> int:
    """Retain the newest manifests of every branch and what they need; delete the rest."""
    with writing(url, author) as catalog:
        cleaned = catalog.cleanup(keep=keep)
    text = (
        f"deleted {cleaned.manifests} manifests, {cleaned.versions} versions, {cleaned.fragments} fragments"
    )
    return finish({"url": url, "keep": keep, **dataclasses.asdict(cleaned)}, text, json_file)


@click.command("compact", short_help="Store tables as one fragment each.")
@click.argument("url")
@click.argument("tables", metavar="[TABLE...]", nargs=-1)
@BRANCH
@AUTHOR
@JSON
@told
def compact_command(
    url: str, tables: tuple[str, ...], branch: str, author: str | None, json_file: str | None
) -> int:
    """Rewrite each TABLE (all, when none is named) as one Parquet file with the same rows."""
    with writing(url, author, branch) as catalog:
        there = catalog.snapshot().tables
        unknown = [table for table in tables if table not in there]
        if unknown:
            raise BadRequest(
                f"branch {branch} has no table {unknown[0]!r}; it has: {', '.join(there) or 'none'}"
            )
        done = [catalog.compact(table) for table in tables or there]
    lines = [f"{one.table}: {one.runs} runs, {one.text}" for one in done]
    code = Exit.HOLDS if all(one.done for one in done) else Exit.UNDECIDED
    found = {"url": url, "branch": branch, "tables": [dataclasses.asdict(one) for one in done]}
    return finish(found, "\n".join(lines), json_file, code)


COMMANDS = (verify_command, repair, cleanup, compact_command)
