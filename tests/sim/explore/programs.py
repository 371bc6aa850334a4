"""Random programs, small and nasty: a few keys that collide, replies that steer what comes next."""

from collections.abc import Callable
from random import Random
from typing import Any

from fencepost.impl.store import ABSENT, ANYTHING, Matches, Outcome
from fencepost.impl.store import requests as req
from fencepost.sim.world import MonitorEvent, View, Violated, World

Code = list[tuple[str, str]]

KEYS = ["a", "a/x", "b"]
ON_KEYS = ["get", "create", "put", "cas", "swap-known", "delete", "delete-known", "both", "upload", "if-done"]
OTHERS = [("list", ""), ("list", "a"), ("list", "b"), ("note", "one"), ("note", "two")]
LOCAL = [("sleep", ""), ("clock", ""), ("pick", "")]
MESSAGES = [("post", ""), ("receive", "")]
WATCHES = ["nothing", "two keys", "listing", "notes", "ends", "eventually", "monitor", "step"]


def random_codes(draw: Random, longest: int = 4) -> list[Code]:
    """Two or three processes."""
    return [
        [random_step(draw) for _ in range(draw.randint(1, longest))] for _ in range(draw.choice([2, 2, 3]))
    ]


def random_step(draw: Random) -> tuple[str, str]:
    chance = draw.random()
    if chance < 0.7:
        return draw.choice(ON_KEYS), draw.choice(KEYS)
    return draw.choice(OTHERS if chance < 0.88 else LOCAL)


def body_of(who: int, seen: list[Any]) -> bytes:
    """Data that shows what was seen before it was written."""
    return repr((who, seen)).encode()


def interpret(world: World, store: Any, who: int, code: list[tuple[str, str]]) -> list[Any]:
    """Run straight-line code; return everything that was learnt, so that endings distinguish orders."""
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
                replies = store.send_all(
                    [req.Put(key, body_of(who, []), ABSENT), req.Put("b", body_of(who, seen), ANYTHING)]
                )
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
            case "post":
                world.post("news", (who, len(seen)))
            case "receive":
                seen.append(world.receive("news"))
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
        elif watch == "monitor":
            world.monitor("monitor", 0, in_turn, notes=["one"], keys=["a"])
        elif watch == "step":
            world.step_property("step", not_both_at_once)

    return program


def in_turn(state: int, event: MonitorEvent) -> Any:
    """Depends on the order of all that it sees."""
    after = (2 * state + len(event.key) + (event.outcome is Outcome.DONE)) % 7
    return Violated("five") if after == 5 else after


def not_both_at_once(before: View, after: View) -> bool:
    """Nobody writes `b` while `a` is as it was at first, unless the listing changes too."""
    if before.get("b") == after.get("b"):
        return True
    return before.get("a") != b"first" or before.keys() != after.keys()


def two_keys(view: View) -> Any:
    """Reads a second key only when the first says so: what it depends on changes as it goes."""
    body = view.get("a")
    if body is None or body == b"first":
        return True
    return None if view.get("b") is None else f"both: {body!r}"
