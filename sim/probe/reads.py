"""Reads: the last write at once, whole objects, and the version of the ETag that was named."""

import functools
from collections.abc import Sequence

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import ANYTHING, Outcome
from fencepost.sim.probe.bench import ROUNDS_MIN, Bench, expect, offered
from fencepost.sim.probe.history import body_of, token_of
from fencepost.sim.probe.verdict import Broken, NotOffered

LOOKS_MAX = 50
"""Rounds of looking after each step: staleness shows early or by luck."""
BIG = 262_144
"""A body that is written in several pieces by every store we know."""
ORDINARY = (
    ("a b", "a+b", "a%20b", "a%2Bb"),
    ("Case", "case", "CASE"),
    ("\u00e9", "e\u0301"),
    ("f", "f/g", "f.g", "f-g"),
)
"""Names that programs make up every day."""
ODD = (
    ("x/y", "x//y", "x%2Fy", "x\\y"),
    ("q?a=1", "q#a", "q&a;b", "q'\"<>"),
    ("f", "f ", " f"),
)
"""Names that are easily avoided, once one knows."""
SKEW_SECONDS_MAX = 2.0
"""Beyond this, comparing the store's times with this host's misleads a lease."""


def read_after_write(bench: Bench) -> str:
    most = min(bench.plan.rounds, LOOKS_MAX)
    for number in bench.rounds(most):
        bench.judged(_look(bench, number))
    return bench.conclude(most)


def _look(bench: Bench, number: int) -> str | None:
    key = bench.key("seen")
    # A read before makes a store remember that nothing is there, if it is one that remembers.
    for step in ("nothing", "first", "second", "deleted", "third"):
        if step == "deleted":
            bench.delete(key)
        elif step != "nothing":
            bench.put(key, f"{step}.{number}")
        wanted = None if step in ("nothing", "deleted") else f"{step}.{number}"
        for reader, who in bench.readers:
            if bench.standing(key, reader) != wanted:
                return f"{who} did not see the {step} state that was acknowledged"
            if reader.head(key).done != (wanted is not None):
                return f"{who} asked for the head and did not see the {step} state"
    return None


def whole_objects(bench: Bench) -> str:
    """Readers beside writers see one write, whole, never a mix, never a part."""
    most = max(min(bench.plan.rounds, ROUNDS_MIN), bench.plan.rounds // 4)
    key = bench.key("whole")
    bench.put(key, "start", size=BIG)
    allowed = {"start"}
    for number in bench.rounds(most):
        requests: list[ask.Request[ask.Reply]] = []
        for at, name in enumerate(bench.rivals(bench.threads)):
            allowed.add(f"{name}.{number}")
            write = ask.Put(key, body_of(f"{name}.{number}", BIG), ANYTHING)
            requests.append(write if (at + number) % 2 else ask.Get(key))
        sent = bench.together(bench.threads, requests)
        last = bench.store.get(key)
        seen = [one.reply for one in sent if isinstance(one.reply, ask.GetReply)] + [last]
        bench.judged(next((error for reply in seen if (error := _torn(reply, allowed))), None))
    return bench.conclude(most)


def _torn(reply: ask.GetReply, allowed: set[str]) -> str | None:
    if reply.outcome is Outcome.MISSING:
        return "a reader saw nothing while the object was only overwritten"
    if not reply.done:
        return None
    token = token_of(reply.body)
    if token not in allowed or len(reply.body) != BIG:
        return f"a reader saw {token!r}, {len(reply.body)} bytes, which nobody wrote"
    return None


def conditional_get(bench: Bench) -> None:
    key = bench.key("known")
    etag = bench.put(key, "first")
    offered(lambda: expect(bench.store.get(key, unless=etag), Outcome.UNCHANGED), "a conditional read")
    expect(bench.store.get(key, only_if=etag), Outcome.DONE)
    bench.put(key, "second")
    news = expect(bench.store.get(key, unless=etag), Outcome.DONE)
    if token_of(news.body) != "second":
        raise Broken("a read that asked for news got the old body")
    expect(bench.store.get(key, only_if=etag), Outcome.CHANGED)
    bench.delete(key)
    expect(bench.store.get(key, unless=etag), Outcome.MISSING)


def ranges(bench: Bench) -> None:
    key = bench.key("bytes")
    body = body_of("0123456789", 1000)
    expect(bench.store.put(key, body, when=ANYTHING), Outcome.DONE)
    for start, stop in ((0, 1), (0, 1000), (990, 2000), (500, None), (999, 1000)):
        ask_range = functools.partial(bench.store.get, key, start=start, stop=stop)
        reply = expect(offered(ask_range, "reading a range"), Outcome.DONE)
        if reply.body != body[start:stop]:
            raise Broken(f"bytes {start} to {stop} came back as other bytes ({len(reply.body)} of them)")
    reply = bench.store.get(key, start=1000, stop=1001)
    expect(reply, Outcome.PAST_END, Outcome.DONE)
    if reply.done and reply.body:
        raise Broken("a range behind the end came back with bytes")


def etags(bench: Bench) -> str:
    """An ETag that stays when the content changes makes every if-match a blind write."""
    most = min(bench.plan.rounds, LOOKS_MAX)
    key = bench.key("etag")
    for number in bench.rounds(most):
        bench.judged(_etags_of(bench, key, number))
    return bench.conclude(most)


def _etags_of(bench: Bench, key: str, number: int) -> str | None:
    # The same length, written as fast as possible: what an ETag of size and time would miss.
    etags = [bench.put(key, f"{number:05d}.{turn}") for turn in range(3)]
    if len(set(etags)) < len(etags):
        return "two different bodies of the same size have the same ETag"
    head = expect(bench.store.head(key), Outcome.DONE)
    read = expect(bench.store.get(key), Outcome.DONE)
    found = {"head": head.info.etag, "get": read.info.etag}
    listed = [entry.etag for entry in bench.store.list(key).objects if entry.key == key]
    if not any(listed):
        bench.note("listings do not tell ETags")
    found |= {"list": listed[0]} if any(listed) else {}
    for where, etag in found.items():
        if etag != etags[-1]:
            return f"{where} tells another ETag than the put did"
    return None


def distinct_keys(bench: Bench) -> None:
    """Two keys that become one are lost data."""
    for family in ORDINARY:
        bench.case()
        _apart(bench, bench.key("names"), family)
    try:
        for family in ODD:
            bench.case()
            _apart(bench, bench.key("names"), family)
    except Broken as merged:
        raise NotOffered(
            f"ordinary keys stay apart, odd ones do not: {merged}; keep to plain names"
        ) from merged


def _apart(bench: Bench, root: str, names: Sequence[str]) -> None:
    stored: dict[str, str] = {}
    for at, name in enumerate(names):
        try:
            reply = bench.store.put(f"{root}/{name}", body_of(f"body.{at}"), when=ANYTHING)
        except StoreError:
            bench.note(f"refuses a key that holds {name!r}")
            continue
        expect(reply, Outcome.DONE)
        stored[name] = f"body.{at}"
    for name, token in stored.items():
        found = bench.standing(f"{root}/{name}")
        if found != token:
            twin = next((other for other, body in stored.items() if body == found), None)
            raise Broken(f"the keys {name!r} and {twin!r} are one" if twin else f"the key {name!r} was lost")
    listed = {entry.key for page in bench.store.pages(f"{root}/") for entry in page.objects}
    unlisted = [name for name in stored if f"{root}/{name}" not in listed]
    if unlisted:
        raise Broken(f"the listing does not show the key {unlisted[0]!r} as it was written")


def clock_skew(bench: Bench) -> str:
    """The store's clock against ours, from the time of modification of what was just written."""
    lowest, highest = float("-inf"), float("inf")
    for _ in range(5):
        key = bench.key("time")
        before_ns = bench.env.now_ns()
        bench.put(key, "now")
        after_ns = bench.env.now_ns()
        info = expect(bench.store.head(key), Outcome.DONE).info
        # HTTP tells whole seconds, so the true time lies up to one second behind what is sent.
        sent_s = info.modified_ns / 1e9
        lowest = max(lowest, sent_s - after_ns / 1e9)
        highest = min(highest, sent_s + 1 - before_ns / 1e9)
    if lowest <= 0 <= highest:
        return f"no skew seen; the store's clock is within {max(-lowest, highest):.1f} s of ours"
    skew = lowest if lowest > 0 else highest
    words = f"the store's clock is about {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} ours"
    if abs(skew) > SKEW_SECONDS_MAX:
        raise NotOffered(f"{words}: compare its times only with each other")
    return words
