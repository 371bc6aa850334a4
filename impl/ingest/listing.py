"""Whole listings, asked until they are answered, and the reading of many small objects at once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from fencepost.impl.environment import Environment
from fencepost.impl.retry import RetryPolicy
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import (
    Get,
    GetReply,
    List,
    ListUploads,
    ListVersions,
    ObjectInfo,
    UploadInfo,
    VersionInfo,
)

AT_ONCE = 100
"""Our own limit on requests in one parallel step: what is in memory at a time."""

T = TypeVar("T")
Stop = Callable[[], bool]
"""Asked between two portions of work: whether to leave the rest to the next time."""


def never() -> bool:
    """Work to the end."""
    return False


def everything(
    store: Store, env: Environment, retry: RetryPolicy, prefix: str, after: str = ""
) -> Iterator[ObjectInfo]:
    """All objects below `prefix` behind the key `after`, in order of their keys."""
    for page in pages(store, env, retry, prefix, after):
        yield from page


def pages(
    store: Store, env: Environment, retry: RetryPolicy, prefix: str, after: str = ""
) -> Iterator[Sequence[ObjectInfo]]:
    """The same, a page at a time."""
    for page in retry.pages(store, env, lambda token: List(prefix, after=after, token=token)):
        yield page.objects


def versions(store: Store, env: Environment, retry: RetryPolicy, prefix: str) -> Iterator[VersionInfo]:
    """All versions and delete markers below `prefix`, by key."""
    for page in retry.pages(store, env, lambda token: ListVersions(prefix, token=token)):
        yield from page.versions


def everything_begun(store: Store, env: Environment, retry: RetryPolicy, prefix: str) -> Iterator[UploadInfo]:
    """All uploads in parts below `prefix` that are neither completed nor aborted."""
    for page in retry.pages(store, env, lambda token: ListUploads(prefix, token=token)):
        yield from page.uploads


def bodies(
    store: Store, env: Environment, retry: RetryPolicy, wanted: Iterable[str]
) -> Iterator[tuple[str, GetReply]]:
    """Each key with the reply to reading it; some may be missing by now."""
    for some in portions(wanted, AT_ONCE):
        replies = retry.read_all(store, env, [Get(key) for key in some])
        yield from zip(some, replies, strict=True)


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
