"""`fencepost ingest maintenance`, `reconcile`, `audit`, `rollup`, `gc`, `policy`: what works behind
collectors."""

import contextlib
import dataclasses
import socket
from typing import Any

import click

from fencepost.commands.exit_codes import Exit
from fencepost.commands.ingest_inventory import found_report
from fencepost.commands.ingest_options import (
    ENV,
    EVERY,
    JSON,
    STORE,
    as_text,
    finish,
    opened,
    repeatedly,
    settings_of,
    settings_options,
    told,
)
from fencepost.impl.ingest import (
    IngestError,
    Reconciler,
    Rollups,
    audit_by_report,
    bucket_policy,
    collect,
    full_audit,
    lifecycle_rules,
)
from fencepost.impl.ingest.maintenance import EVERY_S as MAINTENANCE_S
from fencepost.impl.ingest.maintenance import SEARCH_EVERY_S as SEARCH_S
from fencepost.impl.ingest.maintenance import Maintenance
from fencepost.impl.store import StoreError


@click.command("maintenance", short_help="What a collector does on its own: indexes, rollups, search.")
@STORE
@EVERY
@click.option(
    "--search-every",
    "search_s",
    type=click.FloatRange(0),
    default=SEARCH_S,
    show_default=True,
    metavar="SECONDS",
    help="How often to look through all accepted batches for such as show nowhere.",
)
@JSON
@settings_options
@told
def maintenance(
    url: str, every_s: float | None, search_s: float, json_file: str | None, **options: Any
) -> int:
    """Repair the indexes, add up what is new, and go on with the search for batches that show nowhere. For
    where collectors run with --maintenance-every 0. Of all that do it, collectors or not, one at a time has
    the
    turn; the others do nothing.
    """
    holder = f"{socket.gethostname()} {ENV.new_id()}"
    with opened(url) as store:
        keeper = Maintenance(
            store,
            ENV,
            holder,
            settings_of(options),
            every_s=every_s or MAINTENANCE_S,
            search_every_s=search_s,
        )

        def once() -> int:
            found = keeper.run_once()
            if found is None:
                return finish({"turn": False}, "another process has the turn; nothing was done", json_file)
            text = (
                f"{found.seen} batches seen, {found.found} had shown nowhere, {found.repaired} missing index "
                f"objects written, {found.rolled_up} batches added up"
            )
            text += "".join(f"\ncould not go on: {what}" for what in found.failed)
            told = {"turn": True, **dataclasses.asdict(found)}
            code = _finish(told, text, found.missing, found.damaged, json_file)
            return Exit.UNDECIDED if found.failed and code == Exit.HOLDS else code

        try:
            return repeatedly(once, every_s)
        finally:
            with contextlib.suppress(IngestError, StoreError):  # then it runs out by itself
                keeper.release()


@click.command("reconcile", short_help="Repair the indexes, from where it last stopped.")
@STORE
@EVERY
@JSON
@settings_options
@told
def reconcile(url: str, every_s: float | None, json_file: str | None, **options: Any) -> int:
    """Look at every batch accepted since the last run, some before, and write what is missing of its indexes.

    It finds batches by the index of time. One whose collector died before it wrote that is found by
    `audit`, or by the search that `serve` and `maintenance` do on their own.
    """
    with opened(url) as store:
        reconciler = Reconciler(store, ENV, settings_of(options))

        def once() -> int:
            found = reconciler.once()
            text = f"{found.seen} batches seen, {found.repaired} missing index objects written"
            return _finish(dataclasses.asdict(found), text, found.missing, found.damaged, json_file)

        return repeatedly(once, every_s)


@click.command("audit", short_help="Check every accepted batch; repair all indexes.")
@STORE
@click.option("--deep", is_flag=True, help="Read every blob and compare its hash.")
@click.option(
    "--inventory",
    metavar="PLACE",
    help="Go by this inventory report instead of listing everything: its manifest.json or folder on this "
    "disk, s3://bucket/key, or store:KEY in --store itself.",
)
@JSON
@settings_options
@told
def audit(url: str, deep: bool, inventory: str | None, json_file: str | None, **options: Any) -> int:
    """Compare every accepted batch with the indexes, write what is missing, and write down what that proves:
    `gc` trusts nothing else. Its cost grows with the number of batches.

    A report of S3 Inventory spares the listings. It is old, so what it lacks is asked for before it is
    written, and what it has is believed until the next one, or checked by --deep. Batches accepted since it
    was taken are looked after where they have their place in time. `gc` looks itself at what only a report
    covers.
    """
    settings = settings_of(options)
    with opened(url) as store:
        if inventory is None:
            found = full_audit(store, ENV, settings, deep=deep)
        else:
            with found_report(inventory, url, store) as (report, prefix):
                found = audit_by_report(store, ENV, settings, report=report, prefix=prefix, deep=deep)
            click.echo(f"report taken {report.taken}: {found.since} batches accepted since", err=True)
    text = (
        f"{found.accepted} batches and {found.quarantined} conflicts checked, "
        f"{found.repaired} missing index objects written"
    )
    text += "".join(f"\naccepted, and its manifest was deleted: {key}" for key in found.gone)
    code = _finish(dataclasses.asdict(found), text, found.missing, found.damaged, json_file)
    return Exit.VIOLATED if found.gone else code


@click.command("rollup", short_help="Add up what is new. One owner at a time.")
@STORE
@EVERY
@JSON
@settings_options
@told
def rollup(url: str, every_s: float | None, json_file: str | None, **options: Any) -> int:
    """Write immutable chunks of sums by metric and hour for the batches that are in none yet."""
    with opened(url) as store:
        rollups = Rollups(store, ENV, settings_of(options))

        def once() -> int:
            found = rollups.once()
            text = f"{found.batches} batches of {found.hours} hours added up in {found.chunks} chunks"
            return _finish(dataclasses.asdict(found), text, found.missing, [], json_file)

        return repeatedly(once, every_s)


@click.command("gc", short_help="Delete blobs that nothing refers to.")
@STORE
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@JSON
@settings_options
@told
def gc(url: str, dry_run: bool, json_file: str | None, **options: Any) -> int:
    """Delete blobs of batches that were never accepted, when they are old enough and an audit since then
    proves that nothing refers to them. All that is in doubt is kept.
    """
    with opened(url) as store:
        found = collect(store, ENV, settings_of(options), dry_run=dry_run)
    text = (
        f"{found.blobs} blobs: {found.referenced} referred to, {found.young} too young, "
        f"{found.unproven} not covered by an audit, {found.foreign} not ours, "
        f"{len(found.deleted)} {'would be deleted' if dry_run else 'deleted'}"
    )
    if found.unclear:
        text += f", {len(found.unclear)} not answered: run it again"
    code = Exit.UNDECIDED if found.unclear else Exit.HOLDS
    return finish(dataclasses.asdict(found) | {"dry_run": dry_run}, text, json_file, code)


@click.command("policy", short_help="Print the bucket policy that protects it all.")
@click.argument("bucket")
@click.option("--prefix", default="", help="Where in the bucket it all stands.")
@click.option("--gc-role", required=True, metavar="ARN", help="The role that may delete orphan blobs.")
@click.option("--partition", default="aws", show_default=True, help="aws, aws-cn or aws-us-gov.")
@click.option("--lifecycle", is_flag=True, help="Print the lifecycle rules that go with it instead.")
@told
def policy(bucket: str, prefix: str, gc_role: str, partition: str, lifecycle: bool) -> int:
    """Print what keeps everybody with access to BUCKET to the protocol, as JSON: `aws s3api
    put-bucket-policy` takes it, and `put-bucket-lifecycle-configuration` what --lifecycle prints.
    """
    found = bucket_policy(bucket, prefix, gc_role=gc_role, partition=partition)
    click.echo(as_text(lifecycle_rules(prefix) if lifecycle else found), nl=False)
    return Exit.HOLDS


def _finish(
    found: dict[str, Any], text: str, missing: list[str], damaged: list[str], json_file: str | None
) -> int:
    lines = [text]
    lines += [f"its blob is gone, or not all there: {key}" for key in missing]
    lines += [f"damaged: {what}" for what in damaged]
    return finish(found, "\n".join(lines), json_file, Exit.VIOLATED if missing or damaged else Exit.HOLDS)


COMMANDS = (maintenance, reconcile, audit, rollup, gc, policy)
