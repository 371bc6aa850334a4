"""`fencepost catalog init`, `log`, `branch`, `settle`: commits and branches."""

import datetime as dt
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from fencepost.commands.catalog.group import (
    AT,
    AUTHOR,
    BRANCH,
    NAME,
    command,
    committed,
    exists,
    opened,
    reading,
    subcommand,
    writing,
)
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.operating import Result, format_table, user_name
from fencepost.impl.publish import Published, Unknown
from fencepost.impl.publish.context import MAIN
from fencepost.impl.publish.documents import Manifest


@subcommand("init", "Make an empty catalog.", AUTHOR)
def init(url: str, author: str | None) -> Result:
    """Make an empty catalog at URL."""
    if exists(url):
        raise BadRequest(f"there is a catalog at {url} already")
    with opened(url, mode="join", create=True, author=author or user_name()) as catalog:
        found = {"branch": catalog.branch, "manifest": catalog.manifest.id}
    return Result(found, f"made a catalog at {url}")


@subcommand(
    "log",
    "List the commits, the newest first.",
    BRANCH,
    click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Commits at most."),
)
def log(url: str, branch: str, limit: int) -> Result:
    """List the retained commits: manifest, time, author, kind, tables, plan, message."""
    with reading(url, branch) as catalog:
        found = _commits([manifest for manifest, _ in zip(catalog.log(), range(limit + 1), strict=False)])
    names = ("manifest", "time", "author", "kind", "tables", "plan", "message")
    text = format_table(names, [_line(names, commit) for commit in found[:limit]])
    return Result({"branch": branch, "commits": found[:limit]}, text)


def _line(names: Sequence[str], commit: dict[str, Any]) -> list[str]:
    tables = "?" if commit["tables"] is None else ",".join(commit["tables"]) or "-"
    return [" ".join(str({**commit, "tables": tables}[name]).split()) for name in names]


def _commits(newest_first: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Each with the tables it touched: those whose pin differs from the manifest before."""
    found = [_commit(manifest, _touched(manifest, before)) for manifest, before in pairwise(newest_first)]
    if newest_first:
        first = newest_first[-1]
        # Cleanup deleted the manifest before the oldest retained one, except before the very first.
        found.append(_commit(first, sorted(first.tables) if first.id == 1 else None))
    return found


def _touched(manifest: Manifest, before: Manifest) -> list[str]:
    tables = {*manifest.tables, *before.tables}
    return sorted(table for table in tables if manifest.tables.get(table) != before.tables.get(table))


def _commit(manifest: Manifest, tables: list[str] | None) -> dict[str, Any]:
    time = dt.datetime.fromtimestamp(manifest.time_ns / 1e9, tz=dt.UTC)
    return {
        "manifest": manifest.id,
        "time": f"{time:%Y-%m-%d %H:%M:%S}",
        "author": manifest.author,
        "kind": manifest.kind,
        "tables": tables,
        "plan": manifest.plan,
        "message": manifest.message or "; ".join(filter(None, manifest.members)),
        "epoch": manifest.epoch,
    }


@command.group("branch", short_help="Branches: list, create, merge, delete.")
def branch_group() -> None:
    """Work on a branch and merge it later. A branch costs one object, whatever the number of tables."""


@subcommand("list", "List the branches.", group=branch_group)
def list_(url: str) -> Result:
    """List the branches."""
    with reading(url) as catalog:
        names = catalog.branches()
    return Result({"branches": names}, "\n".join(names))


@subcommand(
    "create",
    "Make a branch.",
    NAME,
    click.option("--from", "source", default=MAIN, show_default=True, metavar="BRANCH", help="Its origin."),
    AT,
    AUTHOR,
    group=branch_group,
)
def create(url: str, name: str, source: str, at: int | None, author: str | None) -> Result:
    """Make branch NAME."""
    with writing(url, author, source) as catalog:
        return committed(
            catalog.create_branch(name, at), url, name, lambda _: f"made branch {name} of {source}"
        )


@subcommand(
    "merge",
    "Fast-forward a branch to another.",
    NAME,
    click.option("--into", "target", default=MAIN, show_default=True, metavar="BRANCH", help="Its target."),
    AUTHOR,
    group=branch_group,
)
def merge(url: str, name: str, target: str, author: str | None) -> Result:
    """Fast-forward another branch to NAME, provided that it has no commits of its own since."""
    with writing(url, author, target) as catalog:
        return committed(
            catalog.merge(name), url, target, lambda id_: f"merged {name} into {target} as manifest {id_}"
        )


@subcommand("delete", "Delete a branch.", NAME, AUTHOR, group=branch_group)
def delete(url: str, name: str, author: str | None) -> Result:
    """Delete branch NAME. The next cleanup deletes what only it needs."""
    with writing(url, author) as catalog:
        return committed(catalog.delete_branch(name), url, name, lambda _: f"deleted branch {name}")


PLAN = re.compile("[0-9A-HJKMNP-TV-Z]{26}")


@subcommand(
    "settle",
    "Find out what became of an unknown commit.",
    click.argument("plan"),
    click.option("--base", type=click.IntRange(0), required=True, help="As printed with the plan."),
    BRANCH,
)
def settle(url: str, plan: str, base: int, branch: str) -> Result:
    """Print whether PLAN was published, never will be, or is still open (exit code 3)."""
    if not PLAN.fullmatch(plan):
        raise BadRequest(f"{plan!r} is no plan; copy it, and its base, from the line that named it")
    with reading(url, branch) as catalog:
        newest = next((manifest.id for manifest in catalog.log()), 0)
        if base > newest:
            raise BadRequest(
                f"branch {branch} has no manifest {base}: its newest is {newest}; correct --base"
            )
        found = catalog.settle(Unknown(plan, "", base))
    code = Exit.HOLDS
    if isinstance(found, Published):
        text, state = f"plan {plan} was published as manifest {found.id}", "published"
    elif found is None:
        text, state = f"plan {plan} was not published and never will be: it may be repeated", "never"
    else:
        text, state = f"plan {plan} is still open; `fencepost catalog repair {url}` settles it", "unknown"
        code = Exit.UNDECIDED
    return Result({"branch": branch, "plan": plan, "state": state}, text, code)
