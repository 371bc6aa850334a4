"""The state that the components of ingest share: one bucket with its settings, which a deployment agrees on.

context = IngestContext(store, env, settings)
context.list_objects(keys.ACCEPTED)                  all objects below a prefix, page by page
lease_of(context, key, holder, lasts_s)              a claim to work that one of several should do
agree(store, env, settings)                          the times on which a whole deployment must agree
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.environment import Environment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.documents import JSON, Manifest, parse, write
from fencepost.impl.ingest.errors import Damaged, IdentityError, SettingsError, StoreUnavailable
from fencepost.impl.ingest.safeguards import STANDARD, Safeguards
from fencepost.impl.ingest.settings import STANDARD_SETTINGS, Settings
from fencepost.impl.lease import Lease
from fencepost.impl.store import ABSENT
from fencepost.impl.store import requests as ask
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Outcome, Request

AT_ONCE = 100
"""Our own limit on requests in one parallel step: it bounds the memory in use."""

T = TypeVar("T")
Stop = Callable[[], bool]
"""Called between two portions of work; True leaves the rest to the next time."""


def never() -> bool:
    """Work to the end."""
    return False


@dataclass
class Findings:
    """The findings of a pass over accepted batches."""

    repaired: int = 0
    """Missing index objects it wrote."""
    missing: list[str] = field(default_factory=list)
    """Accepted manifests without a blob: data that is lost, unless an agent's retry is under way."""
    damaged: list[str] = field(default_factory=list)
    """Objects that could not be read, with the reason."""

    def add(self, other: "Findings") -> None:
        self.repaired += other.repaired
        self.missing += [key for key in other.missing if key not in self.missing]
        self.damaged += other.damaged


@dataclass(eq=False)
class IngestContext(Context):
    """One bucket. Components extend it by what they alone need."""

    settings: Settings = STANDARD_SETTINGS
    safeguards: Safeguards = STANDARD
    retry: RetryPolicy = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.retry = self.settings.retry_policy

    def list_pages(self, prefix: str, after: str = "") -> Iterator[Sequence[ask.ObjectInfo]]:
        """All objects below `prefix` behind the key `after`, in order of their keys, a page at a time."""
        for page in self.pages(lambda token: ask.List(prefix, after=after, token=token)):
            yield page.objects

    def list_objects(self, prefix: str, after: str = "") -> Iterator[ask.ObjectInfo]:
        """All objects below `prefix` behind the key `after`, in order of their keys."""
        for page in self.list_pages(prefix, after):
            yield from page

    def list_keys(self, prefix: str, after: str = "") -> Iterator[str]:
        return (info.key for info in self.list_objects(prefix, after))

    def list_versions(self, prefix: str) -> Iterator[ask.VersionInfo]:
        """All versions and delete markers below `prefix`, by key."""
        for page in self.pages(lambda token: ask.ListVersions(prefix, token=token)):
            yield from page.versions

    def list_uploads(self, prefix: str) -> Iterator[ask.UploadInfo]:
        """All multipart uploads below `prefix` that are neither completed nor aborted."""
        for page in self.pages(lambda token: ask.ListUploads(prefix, token=token)):
            yield from page.uploads

    def read_objects(self, wanted: Iterable[str]) -> Iterator[tuple[str, ask.GetReply]]:
        """Each key with the reply to reading it; objects may be missing by now."""
        for some in portions(wanted, AT_ONCE):
            yield from zip(some, self.read_all([ask.Get(key) for key in some]), strict=True)

    def read_manifests(
        self, wanted: Iterable[str], damaged: list[str], gone: list[str] | None = None
    ) -> dict[str, Manifest]:
        """The manifests at these keys; adds unreadable ones to `damaged`, and missing ones to `gone`."""
        found = {}
        for key, reply in self.read_objects(wanted):
            if reply.info is None:
                if gone is not None:
                    gone.append(key)
            else:
                try:
                    found[key] = Manifest.read(reply.body, key)
                except (Damaged, IdentityError) as error:
                    damaged.append(str(error))
        return found

    def send_until_done(self, request: Request[Any]) -> None:
        """Send an unconditional write until the store acknowledges it."""
        for attempt in range(self.retry.attempts):
            if self.store.send(request).outcome is Outcome.DONE:
                return
            self.back_off(attempt)
        raise StoreUnavailable(f"the store did not {request.kind} {request.subject}; try again when it does")


def portions(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    some: list[T] = []
    for item in items:
        some.append(item)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def lease_of(context: IngestContext, key: str, holder: str, lasts_s: float) -> Lease:
    """A claim to work that one of several processes should do; any number at once only costs more."""
    # The schema keeps the name under which existing buckets have it.
    return Lease(context, key, holder, lasts_s, schema="fencepost.ingest_turn.v1", damaged=Damaged)


AGREEMENT = "fencepost.ingest_agreement.v1"
AGREED = ("horizon_s", "landing_bound_s", "skew_bound_s")


def agree(store: Store, env: Environment, settings: Settings) -> None:
    """Write these times into the bucket, or raise `SettingsError` when it holds others.

    The name of a blob has a generation, the clock divided by the horizon, and garbage collection takes what
    is older than the horizon and the margin: with another horizon it would take a young blob for an old one.
    So the first process writes the times, and one with other times is refused. To change them: stop all
    collectors, wait for the longer of the two horizons and margins, delete the object, start again.
    """
    context = IngestContext(store, env, settings)
    ours = {"schema": AGREEMENT, **{name: getattr(settings, name) for name in AGREED}}
    reply = context.read(ask.Get(keys.AGREEMENT))
    body: bytes | None = reply.body if reply.info is not None else None
    if body is None:
        body = context.create_all([ask.Put(keys.AGREEMENT, write(ours), ABSENT, JSON)])[0].body
    if body is None:
        raise StoreUnavailable(f"the store did not return {keys.AGREEMENT}; try again")
    theirs = parse(body, keys.AGREEMENT, AGREEMENT)
    for name in AGREED:
        if theirs.get(name) != ours[name]:
            raise SettingsError(
                f"{name} is {ours[name]}, and {store.url} is used with {theirs.get(name)}: all "
                "collectors and gc "
                f"of one bucket need the same. To change it: stop them, wait, delete {keys.AGREEMENT}"
            )
