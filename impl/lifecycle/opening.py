"""Open the store of a lifecycle by name: a directory of `objects`, or a bucket of an S3 endpoint.

    with open_lifecycle("/var/lib/objects", env) as opened:                 # driven by its change log
    with open_lifecycle("s3://bucket?endpoint=http://127.0.0.1:9000", env)  # by its log, or walks
    with open_lifecycle("s3://bucket?endpoint=http://a&endpoint=http://b", env)  # in turn, as they answer
        worker = Worker(opened.context, opened.target, opened.log, timing)

The state lies in the store itself, below `lifecycle/`; that of a bucket can be kept in another store, which a
bucket with versions needs to be spared a version for each step of a walk.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.environment import Environment
from fencepost.impl.lifecycle.directory import DirectoryTarget
from fencepost.impl.lifecycle.documents import Documents
from fencepost.impl.lifecycle.endpoint import EndpointTarget
from fencepost.impl.lifecycle.endpoints import Endpoints
from fencepost.impl.lifecycle.journal import Journals
from fencepost.impl.lifecycle.log import ChangeLogReader, Log, NoLog
from fencepost.impl.lifecycle.policies import DirectoryPolicies, EndpointPolicies, Policies, Structures
from fencepost.impl.lifecycle.records import Records
from fencepost.impl.lifecycle.remote import RemoteLog, RemotePolicies, RemoteTarget, Server
from fencepost.impl.lifecycle.target import Target, Unavailable
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.store.errors import Misuse, StoreError
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.interface import Store
from fencepost.impl.store.s3.details import Details
from fencepost.impl.store.s3.store import S3Store
from fencepost.impl.store.urls import open_store

RETRY = RetryPolicy("lifecycle", Unavailable)


@dataclass(frozen=True)
class Opened:
    name: str
    """As it can be opened again."""
    context: Context
    """Of the state."""
    target: Target
    log: Log
    policies: Policies
    bucket: str
    """The only one; empty where there are several."""
    details: Details | None = None
    tried: EndpointTarget | None = None
    """The endpoint that is tried in place of all."""

    def own_rules(self) -> Structures:
        """The rules that an endpoint's bucket has itself."""
        return [] if self.details is None else self.details.lifecycle()

    def evaluates_if_match(self) -> bool:
        """True if the store keeps an object that is overwritten in the moment of its deletion."""
        return self.tried is None or self.tried.evaluates_if_match()


@contextlib.contextmanager
def open_lifecycle(
    name: str,
    env: Environment,
    state: str = "",
    layer: Callable[[Store], Store] = lambda store: store,
    events: Sequence[str] = (),
) -> Iterator[Opened]:
    """Raises `StoreError` where nothing can be opened, `Closed` for a source that was closed.

    `layer` is put over the store of the state; `events` are sources of notifications that begin here.
    """
    scheme = urlsplit(name).scheme if "://" in name else ""
    with contextlib.ExitStack() as stack:
        if scheme == "s3":
            yield _endpoint(name, env, state, layer, stack, events)
        elif scheme in ("", "file"):
            if events:
                raise Misuse("a directory has its own log; events are received for s3://bucket")
            if state:
                raise Misuse("the state of a directory lies in it; --state-store is for s3://bucket")
            yield _directory(unquote(urlsplit(name).path) if scheme else name, env, layer, stack)
        else:
            raise Misuse(f"{name!r} is neither a directory nor s3://bucket?endpoint=...")


def _directory(
    path: str, env: Environment, layer: Callable[[Store], Store], stack: contextlib.ExitStack
) -> Opened:
    documents = Path(path, ".objects")
    if not documents.is_dir():
        raise Misuse(f"{path} is no directory of objects; `fencepost objects serve` makes one")
    buckets = stack.enter_context(contextlib.closing(Buckets(path, env)))
    store = stack.enter_context(FileStore(documents, env=env))
    log = ChangeLogReader(buckets.log, buckets.index)
    context = Context(layer(store), env, retry=RETRY)
    return Opened(path, context, DirectoryTarget(buckets), log, DirectoryPolicies(buckets), "")


def _endpoint(
    url: str,
    env: Environment,
    state: str,
    layer: Callable[[Store], Store],
    stack: contextlib.ExitStack,
    events: Sequence[str],
) -> Opened:
    bucket, prefix = urlsplit(url).netloc, urlsplit(url).path.strip("/")
    if prefix:
        raise Misuse(f"{url!r} names a prefix; rules are those of a whole bucket, name s3://{bucket}?...")
    stores = [_opened(one, env, stack) for one in each_endpoint(url)]
    store = _first_that_answers(stores)
    kept: Store = store
    if state:
        kept = stack.enter_context(open_store(state, env))
        kept.verify()
    context = Context(layer(kept), env, retry=RETRY)
    server = Server([store, *(one for one in stores if one is not store)], bucket)
    if not events and server.offers_log():
        reader = functools.cache(lambda: Records(context).reader_name())
        remote = RemoteTarget(server, bucket)
        details = Details(store, bucket)
        rules = RemotePolicies(remote, details, bucket)
        return Opened(url, context, remote, RemoteLog(server, bucket, reader), rules, bucket, details)
    policies = EndpointPolicies(Documents(context), bucket)
    targets = [
        EndpointTarget(Context(one, env, retry=RETRY), one, bucket, policies.in_force) for one in stores
    ]
    target = Endpoints(targets, env) if len(targets) > 1 else targets[0]
    tried = targets[stores.index(store)]
    name = url if len(targets) > 1 else store.url
    journals = Journals(context, bucket)
    log: Log = journals if events or journals.shards() else NoLog()
    for source in events:
        journals.join(source)
    return Opened(name, context, target, log, policies, bucket, Details(store, bucket), tried)


def each_endpoint(url: str) -> list[str]:
    """The URL with one of its endpoints each."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    endpoints = [text for option, text in options if option == "endpoint"]
    others = [(option, text) for option, text in options if option != "endpoint"]
    if len(endpoints) < 2:
        return [url]
    return [
        urlunsplit(parts._replace(query=urlencode([("endpoint", one), *others], safe=":/")))
        for one in endpoints
    ]


def _opened(url: str, env: Environment, stack: contextlib.ExitStack) -> S3Store:
    store = stack.enter_context(open_store(url, env))
    assert isinstance(store, S3Store), "what s3:// opens"
    return store


def _first_that_answers(stores: list[S3Store]) -> S3Store:
    """The state is read and written through it."""
    for place, store in enumerate(stores):
        try:
            store.verify()
        except StoreError:
            if place == len(stores) - 1:
                raise
        else:
            return store
    raise AssertionError("a URL names one endpoint at least")
