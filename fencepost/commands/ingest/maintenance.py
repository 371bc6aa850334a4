"""`fencepost ingest maintenance`, `reconcile`, `audit`, `rollup`, `gc`, `policy`: the work behind
collectors."""

import contextlib
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.ingest.group import (
    ENV,
    EVERY,
    STORE,
    log_to_stderr,
    names_from_user,
    opened,
    rounds,
    settings_of,
    settings_options,
    subcommand,
)
from fencepost.commands.messages import say
from fencepost.commands.operating import Result
from fencepost.commands.receiving import (
    QUEUES,
    Sources,
    events_options,
    receive_waiting,
    receiving,
    sources_of,
)
from fencepost.commands.serving import token_errors
from fencepost.commands.values import Address
from fencepost.impl.ingest import (
    IngestError,
    Reconciler,
    Report,
    Rollups,
    Settings,
    audit_by_report,
    bucket_policy,
    collect,
    full_audit,
    lifecycle_rules,
    report_at,
    report_in,
    role_policy,
)
from fencepost.impl.ingest.audit import audit_agents
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.ingest.gc import CollectorOfLog
from fencepost.impl.ingest.keys import agent_path, boot_path
from fencepost.impl.ingest.locking import Locking
from fencepost.impl.ingest.maintenance import EVERY_S, SEARCH_EVERY_S, Maintenance
from fencepost.impl.ingest.notified import Followed, Following, NotifiedBatches, Receiver, Repaired
from fencepost.impl.ingest.policy import ROLES
from fencepost.impl.ingest.service.requests import token_file
from fencepost.impl.store import Store, StoreError, open_store

IN_STORE = "store:"
_LOG = logging.getLogger("fencepost.ingest")


@subcommand(
    "maintenance",
    "What a collector does on its own: indexes, rollups, search.",
    STORE,
    EVERY,
    click.option(
        "--search-every",
        "search_s",
        type=click.FloatRange(0),
        default=SEARCH_EVERY_S,
        show_default=True,
        metavar="SECONDS",
        help="How often to search all accepted batches for those that no index shows.",
    ),
    settings_options,
)
def maintenance(url: str, every_s: float | None, search_s: float, **options: Any) -> Iterator[Result]:
    """Repair the indexes, roll up new batches, and continue the search for batches that no index shows. For
    deployments whose collectors run with --maintenance-every 0. One process at a time holds the
    lease, collectors included; the others do nothing.
    """
    holder = f"{socket.gethostname()} {ENV.new_id()}"
    with opened(url) as store:
        worker = Maintenance(
            store, ENV, holder, settings_of(options), every_s=every_s or EVERY_S, search_every_s=search_s
        )

        def once() -> Result:
            found = worker.run_once()
            if found is None:
                return Result({"turn": False}, "another process holds the lease; nothing was done")
            text = (
                f"{found.seen} batches seen, {found.found} were in no index, {found.repaired} missing index "
                f"objects written, {found.rolled_up} batches rolled up"
            )
            text += "".join(f"\nfailed: {reason}" for reason in found.failed)
            result = _result({"turn": True, **asdict(found)}, text, found.missing, found.damaged)
            unfinished = found.failed and result.code == Exit.HOLDS
            return result._replace(code=Exit.UNDECIDED) if unfinished else result

        try:
            yield from rounds(once, every_s)
        finally:
            with contextlib.suppress(IngestError, StoreError):  # then the lease expires
                worker.release()


@subcommand(
    "reconcile",
    "Repair the indexes, from where it last stopped, and as the store notifies.",
    STORE,
    EVERY,
    *events_options(f"{QUEUES}, or `log`: the change log of an object server."),
    settings_options,
)
def reconcile(
    url: str,
    every_s: float | None,
    events: tuple[str, ...],
    receive: Address | None,
    receive_token_file: str | None,
    **options: Any,
) -> Iterator[Result]:
    """Check every batch accepted since the last run, and an overlap before, and write its missing index
    objects.

    It finds batches by the index of time. A batch whose collector died before it wrote that is found when the
    store notifies of its manifest (--events), by `audit`, or by the search of `serve` and `maintenance`. With
    --every it receives all the time; without, it takes what the queues and the log have now. Any number of
    these may receive; no notification is acknowledged before its batch is repaired.
    """
    settings = settings_of(options)
    sources, log = sources_of(events, receive, receive_token_file, with_log=True)
    if receive is not None and every_s is None:
        raise BadRequest(
            "--receive needs --every: without it, reconcile ends before a store can send anything"
        )
    with (
        opened(url) as store,
        _notified(store, url, settings, sources, log) as notified,
        notified.receiving(receive, receive_token_file) if every_s is not None else contextlib.nullcontext(),
    ):
        reconciler = Reconciler(store, ENV, settings)

        def once() -> Result:
            hot = notified.findings() if every_s is not None else notified.take()
            found = reconciler.once()
            text = f"{found.seen} batches seen, {found.repaired} missing index objects written"
            if events:
                text += f"; {hot.seen} batches notified, {hot.repaired} missing index objects written"
            text += "".join(f"\nnotified, and there is no such manifest: {key}" for key in hot.gone)
            if hot.lost:
                text += (
                    "\nthe log has lost events: the next round of the maintenance searches for their batches"
                )
            fields = {**asdict(found), **({"notified": asdict(hot)} if events else {})}
            result = _result(fields, text, [*found.missing, *hot.missing], [*found.damaged, *hot.damaged])
            return result._replace(code=Exit.VIOLATED) if hot.gone else result

        yield from rounds(once, every_s)


@contextlib.contextmanager
def _notified(
    store: Store, url: str, settings: Settings, sources: Sources, log: str
) -> Iterator["_Notified"]:
    bucket, prefix = _bucket_of(url)
    if (sources or log) and bucket is None:
        raise BadRequest(f"{url} sends no notifications; --events is for s3://bucket")
    batches = NotifiedBatches(store, ENV, settings)
    receivers = {name: Receiver(name, batches, bucket or "", prefix) for name in sources}
    with contextlib.ExitStack() as stack:
        followed = None
        if log:
            from fencepost.impl.ingest.server_log import log_of
            from fencepost.impl.store.s3.store import S3Store

            plain = stack.enter_context(open_store(url, ENV))
            assert isinstance(plain, S3Store), "what s3:// opens"
            followed = Followed(log, batches, log_of(plain, bucket or "", prefix, log), prefix)
        yield _Notified(store, sources, receivers, followed)


@dataclass
class _Notified:
    """The sources of notifications of one run."""

    store: Store
    sources: Sources
    receivers: dict[str, Receiver]
    followed: Followed | None
    following: Following | None = None

    def take(self) -> Repaired:
        """Take what the queues and the log have now."""
        receive_waiting(self.sources, self.receivers, _LOG)
        found = self.findings()
        if self.followed is not None:
            found.add(self.followed.once())
        return found

    @contextlib.contextmanager
    def receiving(self, address: Address | None, token_file: str | None) -> Iterator[None]:
        """Receive until the end of the block."""
        if self.sources or self.followed is not None:
            log_to_stderr(verbose=False)
        with contextlib.ExitStack() as stack:
            if self.sources:
                verify = self.store.verify
                stack.enter_context(
                    receiving(self.sources, self.receivers, _LOG, verify, address, token_file)
                )
            if self.followed is not None:
                self.following = stack.enter_context(contextlib.closing(Following(self.followed, _LOG)))
            yield

    def findings(self) -> Repaired:
        """What was found since the last call."""
        total = Repaired()
        for receiver in self.receivers.values():
            total.add(receiver.findings.take())
        if self.following is not None:
            total.add(self.following.findings.take())
        return total


@subcommand("rollup", "Roll up new batches. One owner at a time.", STORE, EVERY, settings_options)
def rollup(url: str, every_s: float | None, **options: Any) -> Iterator[Result]:
    """Write immutable chunks of sums by metric and hour for the batches that are in none yet."""
    with opened(url) as store:
        rollups = Rollups(store, ENV, settings_of(options))

        def once() -> Result:
            found = rollups.once()
            text = f"{found.batches} batches of {found.hours} hours rolled up in {found.chunks} chunks"
            return _result(asdict(found), text, found.missing, [])

        yield from rounds(once, every_s)


@subcommand(
    "audit",
    "Check every accepted batch; repair all indexes.",
    STORE,
    click.option("--deep", is_flag=True, help="Read every blob and compare its hash."),
    click.option(
        "--inventory",
        metavar="PLACE",
        help="Read this inventory report instead of listing everything: its manifest.json or folder on this "
        "disk, s3://bucket/key, or store:KEY in --store itself.",
    ),
    click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only batches of this agent."),
    click.option("--agents", "registry", metavar="FILE", help="Only batches of those in this token file."),
    click.option("--boot", metavar="NAME", help="With one --agent: only batches of this boot of it."),
    settings_options,
)
def audit(
    url: str,
    deep: bool,
    inventory: str | None,
    agents: tuple[str, ...],
    registry: str | None,
    boot: str | None,
    **options: Any,
) -> Result:
    """Compare every accepted batch with the indexes, write what is missing, and record what that proves: `gc`
    trusts nothing else. Its cost grows with the number of batches.

    A report of S3 Inventory replaces the listings. It is old, so a key that it lacks is requested before it
    is written, and a key that it has is trusted until the next report, or checked with --deep. Batches
    accepted since the report are checked if they have a place in time. `gc` checks by itself what only a
    report covers.

    With --agent or --agents it lists the manifests of these agents alone, and no index. That repairs what
    they lack and proves nothing to `gc`.
    """
    settings = settings_of(options)
    named = _named_agents(agents, registry, boot, inventory)
    with opened(url) as store:
        if named is not None:
            found = audit_agents(store, ENV, settings, agents=named, boot=boot, deep=deep)
        elif inventory is None:
            found = full_audit(store, ENV, settings, deep=deep)
        else:
            bucket, prefix = _bucket_of(url)
            with _report(inventory, url, store) as report:
                report.check(bucket=bucket, now_ns=ENV.now_ns())
                found = audit_by_report(store, ENV, settings, report=report, prefix=prefix, deep=deep)
            say(f"report taken {report.taken}: {found.since} batches accepted since", err=True)
    text = (
        f"{found.accepted} batches and {found.quarantined} conflicts checked, "
        f"{found.repaired} missing index objects written"
    )
    text += "".join(f"\naccepted, but its manifest was deleted: {key}" for key in found.gone)
    result = _result(asdict(found), text, found.missing, found.damaged)
    return result._replace(code=Exit.VIOLATED) if found.gone else result


def _named_agents(
    agents: tuple[str, ...], registry: str | None, boot: str | None, inventory: str | None
) -> list[str] | None:
    """The agents to which an audit is narrowed; None for all."""
    if boot is not None and (len(agents) != 1 or registry is not None):
        raise BadRequest("--boot is that of one --agent; give one")
    if not agents and registry is None:
        return None
    if inventory is not None:
        raise BadRequest("--inventory has the batches of all agents; leave out --agent and --agents")
    named = list(agents)
    if registry is not None:
        with token_errors():
            owners = token_file(registry).owners()
        enrolled = [owner.name for _, owner in owners if owner.role == "agent"]
        if not enrolled:
            raise BadRequest(f"{registry} names no agent; give the file of `fencepost ingest enrol`")
        named += enrolled
    with names_from_user():
        for name in named:
            agent_path(name)
        if boot is not None:
            boot_path(named[0], boot)
    return sorted(set(named))


@contextlib.contextmanager
def _report(place: str, url: str, store: Store) -> Iterator[Report]:
    if place.startswith(IN_STORE):
        yield report_in(store, ENV, place.removeprefix(IN_STORE).lstrip("/"))
    elif place.startswith("s3://"):
        # Opened at its root: a manifest names data files by their whole keys.
        parts = urlsplit(place)
        query = parts.query or (urlsplit(url).query if url.startswith("s3://") else "")
        with opened(f"s3://{parts.netloc}{'?' if query else ''}{query}") as elsewhere:
            yield report_in(elsewhere, ENV, unquote(parts.path.strip("/")))
    elif "://" in place:
        raise BadRequest(
            f"--inventory {place!r} names no report: give a file or folder, s3://bucket/key, or "
            f"{IN_STORE}KEY for one in --store itself"
        )
    else:
        yield report_at(Path(place))


def _bucket_of(url: str) -> tuple[str | None, str]:
    """The bucket and prefix that the keys of a store have in a report; a directory has neither."""
    parts = urlsplit(url)
    if parts.scheme != "s3":
        return None, ""
    prefix = unquote(parts.path.strip("/"))
    return parts.netloc, f"{prefix}/" if prefix else ""


@subcommand(
    "gc",
    "Delete unreferenced blobs.",
    STORE,
    click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing."),
    click.option(
        "--inventory",
        metavar="PLACE",
        help="Look at the blobs in this inventory report only, in place of listing all; as for `audit`.",
    ),
    click.option(
        "--log",
        "source",
        metavar="NAME",
        help="Look only at the blobs that the change log of an object server names since the last run with "
        "this name.",
    ),
    settings_options,
)
def gc(url: str, dry_run: bool, inventory: str | None, source: str | None, **options: Any) -> Result:
    """Delete blobs of batches that were never accepted, when they are old enough and an audit since then
    proves that nothing refers to them. Any other blob is kept.

    With --inventory or --log it looks up in the store what these name, and lists no blobs. Exit code 3 if the
    log has lost events: then run it once without.
    """
    settings = settings_of(options)
    bucket, prefix = _bucket_of(url)
    if inventory is not None and source is not None:
        raise BadRequest("--inventory and --log name the blobs in two ways; give one")
    if source is not None and bucket is None:
        raise BadRequest(f"{url} has no change log; --log is for s3://bucket on an object server")
    with opened(url) as store, contextlib.ExitStack() as stack:
        if source is not None:
            from fencepost.impl.ingest.server_log import log_of
            from fencepost.impl.store.s3.store import S3Store

            plain = stack.enter_context(open_store(url, ENV))
            assert isinstance(plain, S3Store), "what s3:// opens"
            log = log_of(plain, bucket or "", prefix, f"gc-{source}")
            follows = CollectorOfLog(
                store, ENV, settings, log=log, source=source, prefix=prefix, dry_run=dry_run
            )
            found = follows.once()
        else:
            report = None
            if inventory is not None:
                report = stack.enter_context(_report(inventory, url, store))
                report.check(bucket=bucket, now_ns=ENV.now_ns())
            found = collect(store, ENV, settings, dry_run=dry_run, report=report, prefix=prefix)
    text = (
        f"{found.blobs} blobs: {found.referenced} referenced, {found.young} too young, "
        f"{found.unproven} not covered by an audit, {found.foreign} foreign, "
        f"{len(found.deleted)} {'would be deleted' if dry_run else 'deleted'}"
    )
    if found.unclear:
        text += f", {len(found.unclear)} with an unknown outcome: run it again"
    if found.lost:
        text += "\nthe log has lost events: run gc once without --log, which looks at all blobs"
    code = Exit.UNDECIDED if found.unclear or found.lost else Exit.HOLDS
    return Result(asdict(found) | {"dry_run": dry_run}, text, code)


@subcommand(
    "lock",
    "Lock what was accepted, so that nobody can destroy it.",
    STORE,
    EVERY,
    click.option(
        "--days",
        metavar="DAYS",
        type=click.IntRange(1),
        required=True,
        help="Days after its acceptance for which a batch is kept.",
    ),
    click.option(
        "--mode",
        type=click.Choice(["governance", "compliance"]),
        default="governance",
        show_default=True,
        help="Compliance: not even the owner of the account can end it.",
    ),
    click.option("--all", "all_", is_flag=True, help="All accepted batches, not only new ones."),
    settings_options,
)
def lock(
    url: str, every_s: float | None, days: int, mode: str, all_: bool, **options: Any
) -> Iterator[Result]:
    """Set the retention of Object Lock on the manifests and blobs of accepted batches. The bucket has to have
    versions and Object Lock.

    A lock adds to the bucket policy (`policy`) and does not replace it: an object that is locked can still be
    hidden by a delete, and its name used again. Exit code 1 when that happened to a manifest.
    """
    bucket, prefix = _bucket_of(url)
    if bucket is None:
        raise BadRequest(f"{url} has no Object Lock; name s3://bucket/prefix")
    from fencepost.impl.store.s3.details import Details, NoAnswer
    from fencepost.impl.store.s3.store import S3Store

    with opened(url) as store, open_store(url, ENV) as plain:
        assert isinstance(plain, S3Store), "what s3:// opens"
        details = Details(plain, bucket)

        def retain(key: str, version: str, until_ns: int) -> bool:
            try:
                return details.retain(f"{prefix}{key}", version, until_ns, mode.upper())
            except NoAnswer as error:
                raise StoreUnavailable(str(error)) from None

        if not details.has_locks():
            raise BadRequest(f"the bucket {bucket} has no Object Lock; it is enabled when a bucket is made")
        locking = Locking(store, ENV, settings_of(options), retain=retain, keep_s=days * 86400)

        def once() -> Result:
            found = locking.everything() if all_ else locking.once()
            text = f"{found.batches} batches are locked"
            text += "".join(f"\ndeleted, or accepted again: {key}" for key in found.reopened)
            result = _result(asdict(found), text, found.missing, found.damaged)
            return result._replace(code=Exit.VIOLATED) if found.reopened else result

        yield from rounds(once, every_s)


@subcommand(
    "policy",
    "Print the bucket policy that enforces the protocol, or the policy of a role.",
    click.argument("bucket"),
    click.option("--prefix", default="", help="Place of the store in the bucket."),
    click.option("--gc-role", metavar="ARN", help="The role that may delete orphan blobs."),
    click.option(
        "--allow",
        multiple=True,
        metavar="ROLE=ARN",
        help=f"Allow a principal the work of a role too: {', '.join(ROLES)}. May be repeated.",
    ),
    click.option("--role", type=click.Choice([*ROLES]), help="Print a policy of IAM for this role instead."),
    click.option("--partition", default="aws", show_default=True, help="aws, aws-cn or aws-us-gov."),
    click.option("--lifecycle", is_flag=True, help="Print the matching lifecycle rules instead."),
    json=False,
)
def policy(
    bucket: str,
    prefix: str,
    gc_role: str | None,
    allow: tuple[str, ...],
    role: str | None,
    partition: str,
    lifecycle: bool,
) -> Result:
    """Print, as JSON, a policy that binds all principals with access to BUCKET to the protocol: `aws s3api
    put-bucket-policy` reads it, and `put-bucket-lifecycle-configuration` the output of --lifecycle. `aws iam
    put-role-policy` reads the output of --role: what a role needs for its work, and nothing else. Agents need
    no access to the bucket.
    """
    if role is not None:
        found = role_policy(role, bucket, prefix, partition=partition)
    elif lifecycle:
        found = lifecycle_rules(prefix)
    elif gc_role is None:
        raise BadRequest("--gc-role is missing: name the role that may delete orphan blobs")
    else:
        principals = dict(text.partition("=")[::2] for text in allow)
        found = bucket_policy(bucket, prefix, gc_role=gc_role, partition=partition, principals=principals)
    return Result({}, json.dumps(found, indent=2, ensure_ascii=True))


def _result(found: dict[str, Any], text: str, missing: list[str], damaged: list[str]) -> Result:
    lines = [text]
    lines += [f"its blob is missing or incomplete: {key}" for key in missing]
    lines += [f"damaged: {reason}" for reason in damaged]
    return Result(found, "\n".join(lines), Exit.VIOLATED if missing or damaged else Exit.HOLDS)
