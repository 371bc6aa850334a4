"""`fencepost catalog`: keep a small dataset of many tables in a bucket or a directory.

A group of small commands over `fencepost.impl.publish`. What changes rows is in `catalog_rows`, branches in
`catalog_branch`, verification and maintenance in `catalog_maintenance`.
"""

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from fencepost.commands import catalog_branch, catalog_maintenance, catalog_rows
from fencepost.commands.catalog_open import exists, reading, told, whoever
from fencepost.commands.catalog_options import AUTHOR, BRANCH, JSON, finish
from fencepost.commands.catalog_show import FORMATS, aligned, check_out, plain_rows, render, write_out
from fencepost.commands.exit_codes import BadRequest
from fencepost.impl.publish import Catalog
from fencepost.impl.publish.documents import Manifest

EPILOG = """Exit codes: 0 done, 1 something is damaged, 2 the request made no sense, 3 others were first
(nothing was published: run it again) or nobody knows yet (the line says what settles it). URL:
file:///directory or s3://bucket/prefix?endpoint=... Example:
fencepost catalog put file:///data/shop person=people.csv --key id."""


@click.group("catalog", short_help="Keep a small dataset of many tables in a bucket.", epilog=EPILOG)
def command() -> None:
    """Keep a dataset of many tables in a bucket or directory: every commit changes all its tables at once,
    edges always point at rows that are there, and any Parquet reader can read the fragments.
    """


@command.command("init", short_help="Make an empty catalog.")
@click.argument("url")
@AUTHOR
@JSON
@told
def init(url: str, author: str | None, json_file: str | None) -> int:
    """Make an empty catalog at URL."""
    if exists(url):
        raise BadRequest(f"there is a catalog at {url} already")
    with Catalog.open(url, mode="join", create=True, author=author or whoever()) as catalog:
        found = {"url": url, "branch": catalog.branch, "manifest": catalog.manifest.id}
    return finish(found, f"made a catalog at {url}", json_file)


@command.command("get", short_help="Read a table.")
@click.argument("url")
@click.argument("table")
@BRANCH
@click.option("--at", type=click.IntRange(1), metavar="MANIFEST", help="As it was then; see `log`.")
@click.option("--format", "shape", type=click.Choice(FORMATS), help="[default: table, or by --out's ending]")
@click.option("--out", metavar="FILE", help="Write this file, whole or not at all.")
@JSON
@told
def get(
    url: str,
    table: str,
    branch: str,
    at: int | None,
    shape: str | None,
    out: str | None,
    json_file: str | None,
) -> int:
    """Print TABLE, in order of its key, or write it to a file."""
    check_out(out)
    chosen = shape or _shape_of(out)
    if chosen == "parquet" and out is None:
        raise BadRequest("Parquet is for programs, not for the terminal; give --out FILE")
    with reading(url, branch) as catalog:
        snapshot = catalog.snapshot(at)
        rows = snapshot.rows(table)
        schema = snapshot.schema(table)
        found = {
            "url": url,
            "branch": branch,
            "manifest": snapshot.id,
            "table": table,
            "key": schema.key,
            "columns": dict(schema.columns),
            "edges": dict(schema.edges),
            "rows": plain_rows(rows),
        }
    if out is not None or json_file != "-":
        write_out(render(schema.columns, rows, chosen), out)
    return finish(found, f"{len(rows)} rows" if out else "", json_file)


def _shape_of(out: str | None) -> str:
    ending = (out or "").rpartition(".")[2]
    return ending if ending in FORMATS else "table"


@command.command("log", short_help="Who committed what, the newest first.")
@click.argument("url")
@BRANCH
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Commits at most.")
@JSON
@told
def log(url: str, branch: str, limit: int, json_file: str | None) -> int:
    """List the commits that are retained: manifest, time, author, what it was, tables, plan, message."""
    with reading(url, branch) as catalog:
        found = _commits([manifest for manifest, _ in zip(catalog.log(), range(limit + 1), strict=False)])
    rows = [_line(commit) for commit in found[:limit]]
    names = ("manifest", "time", "author", "kind", "tables", "plan", "message")
    return finish({"url": url, "branch": branch, "commits": found[:limit]}, aligned(names, rows), json_file)


def _line(commit: dict[str, Any]) -> list[str]:
    tables = "?" if commit["tables"] is None else ",".join(commit["tables"]) or "-"
    words = [commit["manifest"], commit["time"], commit["author"], commit["kind"], tables, commit["plan"]]
    return [" ".join(str(word).split()) for word in (*words, commit["message"])]


def _commits(newest_first: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Each with the tables it touched: those whose pin differs from the manifest before."""
    found = [_commit(manifest, _touched(manifest, before)) for manifest, before in pairwise(newest_first)]
    if newest_first:
        first = newest_first[-1]
        # What stood before the oldest retained one was cleaned up, except before the very first.
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


for _part in (catalog_rows, catalog_branch, catalog_maintenance):
    for _command in _part.COMMANDS:
        command.add_command(_command)
