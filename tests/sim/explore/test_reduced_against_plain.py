"""Reduced exploration must see what plain enumeration sees: the same endings, the same violations.

If this fails, "every schedule" in a verdict is not true. The programs are small and nasty on purpose: a
few keys that collide, replies that steer what comes next, listings, parallel steps, uploads, sleeps.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.impl.store import ABSENT, ANYTHING, Matches
from holdfast.impl.store import requests as ask
from holdfast.sim.explore.plain import Plain
from holdfast.sim.explore.reduced import Reduced
from holdfast.sim.explore.runs import Setting, final_state
from holdfast.sim.world import NO_FAULTS, Budget, View, World

PLAIN_MAX = 1_500

KEYS = st.sampled_from(["a", "a/x", "b"])
STEPS = st.one_of(
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("create"), KEYS),
    st.tuples(st.just("put"), KEYS),
    st.tuples(st.just("cas"), KEYS),
    st.tuples(st.just("swap-known"), KEYS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("delete-known"), KEYS),
    st.tuples(st.just("list"), st.sampled_from(["", "a", "b"])),
    st.tuples(st.just("both"), KEYS),
    st.tuples(st.just("upload"), KEYS),
    st.tuples(st.just("note"), st.sampled_from(["one", "two"])),
    st.tuples(st.just("if-done"), KEYS),
    st.tuples(st.just("sleep"), st.just("")),
    st.tuples(st.just("clock"), st.just("")),
    st.tuples(st.just("pick"), st.just("")),
)
CODES = st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=2, max_size=3)


def body_of(who: int, seen: list[Any]) -> bytes:
    """Data that tells what was seen before it was written."""
    return repr((who, seen)).encode()


def interpret(world: World, store: Any, who: int, code: list[tuple[str, str]]) -> list[Any]:
    """Run straight-line code; return everything that was learnt, so that endings tell orders apart."""
    seen: list[Any] = []
    etag = "0" * 32
    for verb, key in code:
        match verb:
            case "get" | "if-done":
                reply = store.get(key)
                seen.append((reply.outcome.value, reply.body))
                etag = reply.info.etag if reply.info else etag
                if verb == "if-done" and not reply.done:
                    store.put("b", body_of(who, seen), when=ANYTHING)
            case "create":
                seen.append(store.put(key, body_of(who, []), when=ABSENT).outcome.value)
            case "put":
                seen.append(store.put(key, body_of(who, seen), when=ANYTHING).outcome.value)
            case "cas":
                info = store.head(key).info
                when = Matches(info.etag) if info else ABSENT
                seen.append(store.put(key, body_of(who, seen), when=when).outcome.value)
            case "swap-known":
                seen.append(store.put(key, body_of(who, seen), when=Matches(etag)).outcome.value)
            case "delete":
                seen.append(store.delete(key, when=ANYTHING).outcome.value)
            case "delete-known":
                seen.append(store.delete(key, when=Matches(etag)).outcome.value)
            case "list":
                page = store.list(key)
                seen.append([(o.key, o.etag, o.modified_ns) for o in page.objects])
            case "both":
                replies = store.send_all([ask.Put(key, body_of(who, []), ABSENT), ask.Get("b")])
                seen.append([reply.outcome.value for reply in replies])
            case "upload":
                upload = store.create_upload(key).upload
                part = store.upload_part(key, upload, 1, body_of(who, []))
                reply = store.complete_upload(key, upload, [(1, part.etag or "0")], when=ABSENT)
                seen.append(reply.outcome.value)
            case "note":
                world.note(key, who)
            case "sleep":
                store.env.sleep(1)
            case "clock":
                seen.append(store.env.now_ns())
            case "pick":
                seen.append(world.pick("side", "xy"))
    return seen


def program_of(codes: list[list[tuple[str, str]]], watch: str) -> Callable[[World], None]:
    def program(world: World) -> None:
        store = world.store()
        store.put("a", b"first", when=ABSENT)
        for who, code in enumerate(codes):
            # An upload whose parts were lost is misused; that ends a process, and is no violation here.
            world.spawn(interpret, world, store, who, code, name=f"p{who}", may_raise=(Exception,))
        if watch == "two keys":
            world.always("two keys", lambda view: two_keys(view))
        elif watch == "listing":
            world.always("listing", lambda view: len(view.keys("a")) < 2)
        elif watch == "notes":
            world.always(
                "notes", lambda view: view.notes("one") != view.notes("two") or not view.notes("one")
            )
        elif watch == "ends":
            world.always("ends", lambda view: "p1" not in view.results() or "p0" in view.results())
        elif watch == "eventually":
            world.eventually("b was there without a", lambda view: view.get("b") and not view.get("a"))

    return program


def two_keys(view: View) -> Any:
    """Reads a second key only when the first says so: what it depends on changes as it goes."""
    body = view.get("a")
    if body is None or body == b"first":
        return True
    return None if view.get("b") is None else f"both: {body!r}"


BUDGETS = st.sampled_from(
    [
        NO_FAULTS,
        Budget(crashes=1, lost=0, stalls=0),
        Budget(crashes=0, lost=1, stalls=0),
        Budget(crashes=0, lost=0, late=1, stalls=0),
        Budget(crashes=0, lost=0, stalls=1),
        Budget(crashes=0, lost=0, stalls=0, conflicts=1, retries=1),
        Budget(crashes=1, lost=0, stalls=0, restarts=0),
    ]
)
WATCHES = st.sampled_from(["nothing", "two keys", "listing", "notes", "ends", "eventually"])


def seen_by(search: Any) -> tuple[set[Any], set[str]]:
    endings: set[Any] = set()
    search._observe = lambda world: endings.add(final_state(world))
    search.explore(lambda s: s.schedules > PLAIN_MAX)
    return endings, {str(failure.violation) for failure in search.failures}


def compare(
    codes: list[list[tuple[str, str]]], budget: Budget, watch: str, **options: Any
) -> tuple[int, int]:
    """Explore both ways; the numbers of schedules. (0, 0) when there is too much to enumerate."""
    setting = Setting(program_of(codes, watch), budget)
    plain = Plain(setting, first_only=False)
    endings, wrong = seen_by(plain)
    if not plain.exhausted:
        return 0, 0
    reduced = Reduced(setting, first_only=False, **options)
    fewer_endings, fewer_wrong = seen_by(reduced)
    assert reduced.exhausted
    assert fewer_endings == endings
    assert fewer_wrong == wrong
    return plain.schedules, reduced.runs


@pytest.mark.parametrize("merge", [True, False])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(codes=CODES, budget=BUDGETS, watch=WATCHES)
def test_random_programs_end_alike(merge: bool, codes: Any, budget: Budget, watch: str) -> None:
    compare(codes, budget, watch, merge=merge, timed=True)
