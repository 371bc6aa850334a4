"""Listings: every object once, and nothing else, page by page."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from fencepost.impl.store import requests as ask
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import ANYTHING, Outcome
from fencepost.sim.probe.bench import Bench, expect
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.reads import LOOKS_MAX
from fencepost.sim.probe.verdict import Broken, NotOffered

SMALL_PAGE = 100
"""Small pages cross more seams while others write."""
PAGES_MAX = 10_000
"""A token that leads nowhere must not keep us for ever."""

# Neighbours in byte order that other orders put elsewhere: a tree's ('/' first or last), upper case after
# lower case, UTF-16 (emoji before the full-width forms).
ORDERED = ["A", "a-b", "a/b", "a/c/d", "a0", "b", "\u00e9", "\uff5a", "\U0001f600"]


def list_after_write(bench: Bench) -> str:
    """Acknowledged objects are listed, with their present ETags."""
    most = min(bench.plan.rounds, LOOKS_MAX)
    for number in bench.rounds(most):
        folder = bench.key("folder") + "/"
        keys = [f"{folder}{name}" for name in bench.threads.names]
        # A store that caches listings has one in its cache now.
        _look_around(bench, folder)
        sent = bench.together(
            bench.threads, [ask.Put(key, body_of(f"first.{number}"), ANYTHING) for key in keys]
        )
        error = _unlisted(bench, folder, {one.request.key: one.reply.etag for one in sent if one.reply.done})
        if error is None:
            etag = bench.put(keys[0], f"second.{number}")
            error = _unlisted(bench, folder, {keys[0]: etag})
        bench.judged(error)
    return bench.conclude(most)


def _look_around(bench: Bench, folder: str) -> None:
    for store, _ in bench.readers:
        _everything(store, folder)


def _unlisted(bench: Bench, folder: str, written: dict[str, str]) -> str | None:
    for store, who in bench.readers:
        listed = {entry.key: entry.etag for entry in _everything(store, folder)}
        for key, etag in written.items():
            if key not in listed:
                return f"{who} listed {folder[-12:]} without {key[-8:]}, which was acknowledged before"
            # Some stores list no ETag, which does not mislead a client.
            if listed[key] not in (etag, ""):
                return f"{who} listed {key[-8:]} with an ETag from before the last acknowledged write"
    return None


def list_after_delete(bench: Bench) -> str:
    """Deleted objects are not listed."""
    most = min(bench.plan.rounds, LOOKS_MAX)
    for number in bench.rounds(most):
        folder = bench.key("folder") + "/"
        keys = [f"{folder}{name}" for name in bench.threads.names]
        bench.in_bulk([ask.Put(key, body_of(f"first.{number}"), ANYTHING) for key in keys])
        _look_around(bench, folder)
        gone = keys[::2]
        sent = bench.together(
            bench.threads, [ask.Delete(key, ANYTHING) if key in gone else ask.Head(key) for key in keys]
        )
        deleted = {
            one.request.subject for one in sent if isinstance(one.request, ask.Delete) and one.reply.done
        }
        error = None
        for store, who in bench.readers:
            ghosts = deleted & {entry.key for entry in _everything(store, folder)}
            if ghosts and error is None:
                error = f"{who} listed {min(ghosts)[-8:]}, which was deleted before"
        bench.judged(error)
    return bench.conclude(most)


def listing_order(bench: Bench) -> None:
    """Byte order is what S3 promises; any other order must at least lose nothing."""
    folder = bench.key("order") + "/"
    for name in ORDERED:
        bench.put(f"{folder}{name}", "x")
    names = [entry.key.removeprefix(folder) for entry in _everything(bench.store, folder)]
    if sorted(names) != sorted(ORDERED):
        raise Broken(f"listed {names}, where {ORDERED} stand")
    _resumes(bench, folder, names)
    if names != sorted(ORDERED, key=str.encode):
        left, right = next(pair for pair in itertools.pairwise(names) if pair[0].encode() > pair[1].encode())
        raise NotOffered(f"complete, but not in byte order: {left!r} comes before {right!r}")


def _resumes(bench: Bench, folder: str, names: Sequence[str]) -> None:
    """Starting after a key shows what lies behind it: a log that is read on must not skip."""
    for at, name in enumerate(names):
        shown = [
            entry.key.removeprefix(folder) for entry in _everything(bench.store, folder, f"{folder}{name}")
        ]
        behind = {other for other in names if other.encode() > name.encode()}
        if shown != list(names[at + 1 :]) and set(shown) != behind:
            raise Broken(f"listing after {name!r} showed {shown}, which skips or repeats keys")


def paging(bench: Bench) -> str:
    folder, keys = _paged_keys(bench)
    bench.case()
    pages = list(_pages(bench.store, folder, bench.plan.page))
    shown = [entry.key for page in pages for entry in page.objects]
    _complete(keys, shown)
    if max(len(page.objects) for page in pages) > bench.plan.page:
        bench.note("gives longer pages than were asked for")
    middle = shown[len(shown) // 2]
    after = [entry.key for entry in _everything(bench.store, folder, middle)]
    if sorted(after) not in (
        sorted(shown[len(shown) // 2 + 1 :]),
        sorted(key for key in keys if key > middle),
    ):
        raise Broken(f"starting after {middle[-6:]} showed {len(after)} keys, not those behind it")
    return f"{len(keys)} keys in {len(pages)} pages, each once"


def paging_under_writes(bench: Bench) -> str:
    """Keys that exist all the while are shown exactly once, whatever happens around them."""
    folder, keys = _paged_keys(bench)
    bench.case()
    shown: list[str] = []
    count = 0
    for count, page in enumerate(_pages(bench.store, folder, min(SMALL_PAGE, bench.plan.page)), 1):
        shown += [entry.key for entry in page.objects]
        bench.together(bench.threads, _around(keys, count, bench.threads.names))
    del bench.kept["paged"]
    standing = set(keys)
    _complete(keys, [key for key in shown if key in standing])
    return f"{len(keys)} keys in {count} pages, each once, while others wrote"


def _around(keys: Sequence[str], count: int, names: Sequence[str]) -> list[ask.Request[ask.Reply]]:
    """New keys between the old ones, last turn's deleted again, and old ones written anew."""
    requests: list[ask.Request[ask.Reply]] = []
    for at, name in enumerate(names):
        neighbour = keys[(count * 37 + at * 11) % len(keys)]
        last = keys[((count - 1) * 37 + (at - 1) * 11) % len(keys)]
        if at % 3 == 0:
            requests.append(ask.Put(f"{neighbour}+", body_of(name), ANYTHING))
        elif at % 3 == 1:
            requests.append(ask.Delete(f"{last}+", ANYTHING))
        else:
            requests.append(ask.Put(neighbour, body_of(f"{name}.{count}"), ANYTHING))
    return requests


def _paged_keys(bench: Bench) -> tuple[str, list[str]]:
    """Many keys, written once for both features."""
    if "paged" not in bench.kept:
        folder = bench.key("pages") + "/"
        keys = [f"{folder}{number:06d}" for number in range(bench.plan.keys)]
        bench.in_bulk([ask.Put(key, b"x\n", ANYTHING) for key in keys])
        bench.kept["paged"] = (folder, keys)
    folder, keys = bench.kept["paged"]
    return folder, keys


def _complete(keys: Sequence[str], shown: Sequence[str]) -> None:
    lost = set(keys) - set(shown)
    if lost:
        raise Broken(f"{len(lost)} of {len(keys)} keys were not shown, the first is {min(lost)[-6:]}")
    twice = [key for key, count in Counter(shown).items() if count > 1]
    if twice:
        raise Broken(f"{len(twice)} of {len(keys)} keys were shown twice, the first is {min(twice)[-6:]}")


def _everything(store: Store, prefix: str, after: str = "") -> list[ask.ObjectInfo]:
    return [entry for page in _pages(store, prefix, 1000, after) for entry in page.objects]


def _pages(store: Store, prefix: str, limit: int, after: str = "") -> Iterator[ask.ListReply]:
    token = ""
    for _ in range(PAGES_MAX):
        page = expect(store.list(prefix, after=after, limit=limit, token=token), Outcome.DONE)
        yield page
        if not page.next:
            return
        if page.next == token:
            raise Broken("the token of the next page is the one of this page: the listing never ends")
        token = page.next
    raise Broken(f"the listing has not ended after {PAGES_MAX} pages")
