"""What each promise makes of a run, written as the observations that it sees."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fencepost.properties.promises import PROMISES, BadPromise, Observation, digest_of, parse
from fencepost.properties.promises.observation import (
    CRASH,
    DELETE,
    END,
    LIST,
    LOOK,
    NOTE,
    READ,
    REFUSED,
    SENT,
    WRITE,
)

START = 1_700_000_000 * 10**9


def put(who: str, key: str, body: bytes, condition: str = "anything", **more: Any) -> Observation:
    return Observation(
        *(WRITE, who, more.pop("strand", who)),
        key=key,
        body=body,
        digest=digest_of(body),
        condition=condition,
        asked=WRITE,
        **more,
    )


def refused(
    who: str, key: str, body: bytes, outcome: str = "exists", condition: str = "absent"
) -> Observation:
    return Observation(
        *(REFUSED, who, who),
        key=key,
        body=body,
        digest=digest_of(body),
        outcome=outcome,
        condition=condition,
        asked=WRITE,
    )


def delete(who: str, key: str, condition: str = "anything") -> Observation:
    return Observation(DELETE, who, who, key=key, condition=condition, asked=DELETE)


def read(who: str, key: str, body: bytes | None, **more: Any) -> Observation:
    strand = more.pop("strand", who)
    return Observation(READ, who, strand, key=key, body=body, exists=body is not None, **more)


def look(who: str, key: str) -> Observation:
    return Observation(LOOK, who, who, key=key)


def listing(who: str, prefix: str, *keys: str) -> Observation:
    return Observation(LIST, who, who, key=prefix, listed=keys)


def note(who: str, topic: str, value: Any = None) -> Observation:
    return Observation(NOTE, who, who, key=topic, value=value)


def end(who: str, value: Any = None, *, failed: bool = False) -> Observation:
    return Observation(END, who, who, value=value, failed=failed)


def crash(who: str) -> Observation:
    return Observation(CRASH, who, who)


def judged(
    text: str, seen: Sequence[Observation], objects: dict[str, bytes] | None = None, *, whole: bool = True
) -> str | None:
    """Return the reason why a run breaks a promise."""
    promise = parse(text)
    promise.begin({key: (body, digest_of(body)) for key, body in (objects or {}).items()})
    for one in seen:
        hash(promise.state())
        reason = promise.observe(one)
        if reason is not None:
            return reason
    return promise.finish(whole=whole)


Case = tuple[str, list[Observation], dict[str, bytes]]

LOG_1 = put("ann", "log/1", b"a", "absent")
BROKEN: dict[str, Case] = {
    "a read-modify-write": (
        "register",
        [
            *(read("ann", "k", b"[]"), read("bob", "k", b"[]")),
            *(put("bob", "k", b'["b"]'), put("ann", "k", b'["a"]')),
        ],
        {"k": b"[]"},
    ),
    "an update since its writer looked, whose earlier request landed late": (
        "register",
        [
            Observation(SENT, "ann", "ann", key="k", number=7, asked=WRITE),
            *(put("bob", "k", b'["b"]'), read("ann", "k", b'["b"]')),
            *(read("cid", "k", b'["b"]'), put("cid", "k", b'["b", "c"]')),
            put("ann", "k", b"[]", number=7, late=True, acknowledged=False),
            *(put("dan", "k", b'["d"]', acknowledged=False), put("ann", "k", b'["b", "a"]')),
        ],
        {},
    ),
    "two count from the same number": (
        "register",
        [read("ann", "k", b"0"), read("bob", "k", b"0"), put("bob", "k", b"1"), put("ann", "k", b"1")],
        {"k": b"0"},
    ),
    "a check before a put": (
        "register",
        [read("ann", "k", None), put("bob", "k", b"b"), put("ann", "k", b"a")],
        {},
    ),
    "a list before a put": (
        "register",
        [listing("ann", "log/"), put("bob", "log/1", b"b"), put("ann", "log/1", b"a")],
        {},
    ),
    "an ETag that is newer than the content": (
        "register",
        [
            read("app", "k", b"[]", strand="app/1"),
            put("app", "k", b'["b"]', "matches", strand="app/2"),
            put("app", "k", b'["a"]', "matches", strand="app/1"),
        ],
        {"k": b"[]"},
    ),
    "a refused body that is sent again with a fresh ETag": (
        "register",
        [
            *(read("ann", "k", b"[]"), put("bob", "k", b'["b"]')),
            refused("ann", "k", b'["a"]', "changed", "matches"),
            *(read("ann", "k", b'["b"]'), put("ann", "k", b'["a"]', "matches")),
        ],
        {"k": b"[]"},
    ),
    "a renewal that writes a released lock back": (
        "register",
        [
            *(put("app", "k", b"1"), read("app", "k", b"1", strand="app/renew")),
            *(delete("app", "k"), put("app", "k", b"2", strand="app/renew")),
        ],
        {},
    ),
    "a delete of what is not what was seen": (
        "register",
        [look("ann", "k"), put("bob", "k", b"new"), delete("ann", "k")],
        {"k": b"old"},
    ),
    "a put that lands late": (
        "register",
        [
            read("ann", "k", b"0"),
            Observation(SENT, "ann", "ann", key="k", number=7, asked=WRITE),
            *(put("bob", "k", b"2"), put("ann", "k", b"1", number=7, late=True)),
        ],
        {"k": b"0"},
    ),
    "a put that lands late, after its sender read again": (
        "register",
        [
            read("ann", "k", b"0"),
            replace(put("ann", "k", b"1", number=7), kind=SENT),
            *(put("bob", "k", b"2"), read("ann", "k", b"2"), put("ann", "k", b"1", number=7, late=True)),
        ],
        {"k": b"0"},
    ),
    "a write over one whose content is not known": (
        "register",
        [read("ann", "k", b"0"), replace(put("bob", "k", b"2"), body=None), put("ann", "k", b"1")],
        {"k": b"0"},
    ),
    "a put that was refused, and sent again after others": (
        "register",
        [
            *(read("ann", "k", b"0"), refused("ann", "k", b"1", "changed", "matches")),
            *(put("bob", "k", b"2"), put("cid", "k", b"3", acknowledged=False), read("ann", "k", b"3")),
            put("ann", "k", b"1"),
        ],
        {"k": b"0"},
    ),
    "write skew": (
        "serializable",
        [
            *(read("ann", "x", b"1"), read("bob", "y", b"1")),
            *(put("ann", "y", b"0"), put("bob", "x", b"0"), end("ann"), end("bob")),
        ],
        {"x": b"1", "y": b"1"},
    ),
    "a file that is written twice": (
        "once=files/",
        [put("ann", "files/a", b"1"), put("bob", "files/a", b"2")],
        {},
    ),
    "a name that comes back": (
        "once=files/",
        [put("ann", "files/a", b"1"), delete("bob", "files/a"), put("cid", "files/a", b"2"), end("cid")],
        {},
    ),
    "a lock that is robbed": ("lock=k", [put("ann", "k", b"ann", "absent"), put("bob", "k", b"bob")], {}),
    "a lock that is deleted by another": (
        "lock=k",
        [put("ann", "k", b"ann", "absent"), delete("bob", "k")],
        {},
    ),
    "a lock that is left": ("lock=k", [put("ann", "k", b"ann", "absent"), end("ann")], {}),
    "a lock that nobody gets": (
        "lock=k",
        [refused("ann", "k", b"ann", "conflict"), end("ann")],
        {},
    ),
    "a lease that is taken too early": (
        "lock=k,ttl=60",
        [put("ann", "k", b"ann", t_ns=START), put("bob", "k", b"bob", t_ns=START + 59 * 10**9)],
        {},
    ),
    "a record that is written over": ("log=log/", [LOG_1, put("bob", "log/1", b"b")], {}),
    "a record that is there twice": (
        "log=log/",
        [
            put("ann", "log/1", b"a", "absent", acknowledged=False),
            *(refused("ann", "log/1", b"a"), put("ann", "log/2", b"a", "absent")),
        ],
        {},
    ),
    "a record of two files": ("log=f/", [put("ann", "f/0", b"[1]"), put("ann", "f/1", b"[1, 2]")], {}),
    "a gap": ("log=log/", [LOG_1, put("bob", "log/3", b"b")], {}),
    "a reader that misses a record": (
        "log=log/,reader=new",
        [listing("new", "log/"), LOG_1, end("ann"), end("new")],
        {},
    ),
    "an epoch that falls": (
        "log=log/,rising=epoch",
        [put("ann", "log/1", b'{"epoch": 2}'), put("bob", "log/2", b'{"epoch": 1}')],
        {},
    ),
    "a writer that fences itself": (
        "log=log/",
        [
            put("ann", "log/1", b"a", "absent", acknowledged=False),
            *(refused("ann", "log/1", b"a"), end("ann", failed=True)),
        ],
        {},
    ),
    "a file that is deleted while it is named": (
        "manifest=m",
        [delete("gc", "b/data/1")],
        {"b/m": b'{"files": ["data/1"]}', "b/data/1": b""},
    ),
    "a file that is named too early": (
        "manifest=m",
        [put("ann", "b/m", b'["data/1"]'), put("ann", "b/data/1", b"")],
        {},
    ),
    "a number that names a file": (
        "manifest=m,data=data/",
        [delete("gc", "b/data/0007.sst")],
        {"b/m": b"[7]", "b/data/0007.sst": b""},
    ),
    "a marker whose files are gone": (
        "manifest=B/meta",
        [put("ann", "b/B/1", b"x"), delete("gc", "b/B/1"), put("ann", "b/B/meta", b"{}")],
        {},
    ),
    "a file that nothing names at the end": (
        "manifest=m,data=data/,garbage=no",
        [put("ann", "b/data/1", b""), put("ann", "b/m", b"[]")],
        {},
    ),
    "a stale ETag": (
        "references=p",
        [
            put("ann", "b/v/7", b"x", etag="aa11"),
            put("bob", "b/v/7", b"x", etag="bb22"),
            put("ann", "b/p", b'{"path": "v/7", "etag": "aa11"}'),
        ],
        {},
    ),
    "a quick reader that finds nothing": (
        "references=head,grace=60",
        [
            read("ann", "head", b'"seg/1"', t_ns=START),
            *(put("bob", "head", b'"seg/2"'), delete("gc", "seg/1")),
            read("ann", "seg/1", None, t_ns=START + 10**9),
        ],
        {"head": b'"seg/1"', "seg/1": b"", "seg/2": b""},
    ),
    "a job that is done and dead": ("queue=jobs/", [put("a", "done/1", b"x"), put("b", "dead/1", b"y")], {}),
    "a job that is done twice": ("queue=jobs/", [put("a", "done/1", b"a"), put("b", "done/1", b"b")], {}),
    "a job that is forgotten": ("queue=jobs/", [delete("a", "jobs/1")], {"jobs/1": b""}),
    "a job that comes back": (
        "queue=jobs/",
        [put("a", "jobs/1", b'{"state": "done"}'), put("b", "jobs/1", b'{"state": "running"}')],
        {},
    ),
    "two leaders": ("agree=leads", [note("ann", "leads"), note("bob", "leads")], {}),
    "a row that is lost": (
        "kept=acknowledged,in=log/",
        [note("ann", "acknowledged", "row 1")],
        {"log/1": b"row 2"},
    ),
    "a file named from its folder is deleted": (
        "references=a/db/m",
        [put("ann", "a/db/file", b"1"), put("ann", "a/db/m", b'["file"]'), delete("gc", "a/db/file")],
        {},
    ),
    "what was noted is kept elsewhere": (
        "kept=acknowledged,in=log/",
        [note("ann", "acknowledged", "row 1"), put("ann", "other/1", b"row 1")],
        {},
    ),
    "a report that is not true": ("report=k", [put("bob", "k", b"b"), end("ann", True)], {}),
    "a report of failure that is not true": ("report=k", [put("ann", "k", b"a"), end("ann", False)], {}),
    "dirt that is left": ("gone=dirty/", [end("ann")], {"dirty/1": b""}),
    "a lease that is taken in its last nanosecond": (
        "lock=k,ttl=60",
        [put("ann", "k", b"ann", t_ns=START), put("bob", "k", b"bob", t_ns=START + 60 * 10**9 - 1)],
        {},
    ),
    "a holder that takes its lock again after a crash": (
        "lock=k",
        [put("ann", "k", b"1"), crash("ann"), put("ann", "k", b"2"), put("bob", "k", b"bob")],
        {},
    ),
    "a thread that ends is not the end of the holder": (
        "lock=k",
        [put("app", "k", b"1"), Observation(END, "app", "app/renew"), put("bob", "k", b"bob")],
        {},
    ),
    "phantom keys of a listing": (
        "serializable",
        [
            *(listing("ann", "x/"), listing("bob", "y/")),
            *(put("ann", "y/1", b""), put("bob", "x/1", b""), end("ann"), end("bob")),
        ],
        {},
    ),
    "half a change that is seen after a crash within a transaction": (
        "serializable",
        [
            *(note("ann", "begin"), crash("ann"), read("ann", "x", b"1")),
            *(put("bob", "x", b"2"), put("bob", "y", b"2"), end("bob")),
            *(read("ann", "y", b"2"), note("ann", "begin"), note("ann", "commit"), end("ann")),
        ],
        {"x": b"1", "y": b"1"},
    ),
    "a record that another life writes again": (
        "log=log/",
        [LOG_1, crash("ann"), put("ann", "log/2", b"a", "absent", incarnation=1)],
        {},
    ),
    "a record that is written again after no reply": (
        "log=log/",
        [put("ann", "log/1", b"a", "absent", acknowledged=False), put("ann", "log/2", b"a", "absent")],
        {},
    ),
    "a reader whose listing got lost": (
        "log=log/,reader=new",
        [
            *(LOG_1, end("ann")),
            Observation(LIST, "new", "new", key="log/", listed=("log/1",), acknowledged=False),
            end("new"),
        ],
        {},
    ),
    "a reader that forgot what it knew": (
        "log=log/,reader=new",
        [LOG_1, end("ann"), listing("new", "log/", "log/1"), crash("new"), end("new")],
        {},
    ),
    "a job that is dead and done": ("queue=jobs/", [put("a", "dead/1", b"x"), put("b", "done/1", b"y")], {}),
    "a job that is done again after its record went": (
        "queue=jobs/",
        [put("a", "done/1", b"x"), delete("gc", "done/1"), put("b", "done/1", b"x")],
        {},
    ),
    "a name of what was deleted before": (
        "references=m",
        [delete("gc", "b/data/1"), put("ann", "b/m", b'["data/1"]')],
        {"b/data/1": b""},
    ),
    "an update of a manifest that is lost": (
        "manifest=m",
        [read("ann", "m", b"[]"), put("bob", "m", b'["b"]'), put("ann", "m", b'["a"]')],
        {"m": b"[]"},
    ),
    "a row that is deleted": (
        "kept=acknowledged,in=log/",
        [put("ann", "log/1", b"row 1"), note("ann", "acknowledged", "row 1"), delete("gc", "log/1")],
        {},
    ),
}
FINE: dict[str, Case] = {
    "a lock that somebody held before the recording began": (
        "lock=k",
        [refused("ann", "k", b"ann"), end("ann")],
        {},
    ),
    "a swap": (
        "register",
        [
            read("ann", "k", b"[]"),
            put("bob", "k", b"[1]"),
            read("ann", "k", b"[1]"),
            put("ann", "k", b"[1, 2]"),
        ],
        {"k": b"[]"},
    ),
    "who never looked may overwrite": (
        "register",
        [put("ann", "k", b"a"), put("bob", "k", b"b"), delete("ann", "j")],
        {},
    ),
    "a write that keeps what the other added": (
        "register",
        [read("ann", "k", b"{}"), put("bob", "k", b'{"b": 1}'), put("ann", "k", b'{"a": 1, "b": 1}')],
        {"k": b"{}"},
    ),
    "an update that nobody was promised": (
        "register",
        [read("ann", "k", b"0"), put("bob", "k", b"2", acknowledged=False), put("ann", "k", b"1")],
        {"k": b"0"},
    ),
    "a crash forgets what was read": (
        "register",
        [read("ann", "k", b"0"), put("bob", "k", b"2"), crash("ann"), put("ann", "k", b"1")],
        {"k": b"0"},
    ),
    "a thread renews, another releases": (
        "register",
        [put("app", "k", b"1"), put("app", "k", b"2", strand="app/renew"), delete("app", "k")],
        {},
    ),
    "one after the other": (
        "serializable",
        [
            *(read("ann", "x", b"0"), put("bob", "x", b"1"), read("ann", "x", b"1")),
            *(put("ann", "x", b"2"), end("ann"), end("bob")),
        ],
        {"x": b"0"},
    ),
    "the same content again": ("once=files/", [put("ann", "files/a", b"1"), put("bob", "files/a", b"1")], {}),
    "a writer that fails has acknowledged nothing": (
        "once=f/",
        [put("ann", "f/a", b"1"), delete("b", "f/a"), put("cid", "f/a", b"2"), end("cid", failed=True)],
        {},
    ),
    "a lock that is released": ("lock=k", [put("ann", "k", b"a"), delete("ann", "k"), end("ann")], {}),
    "a lock of a process that crashed": (
        "lock=k",
        [put("ann", "k", b"a"), crash("ann"), delete("bob", "k")],
        {},
    ),
    "a leader stays": ("lock=k,released=no", [put("ann", "k", b"a"), end("ann")], {}),
    "a put that lands late, sent before its sender looked": (
        "register",
        [
            replace(put("ann", "k", b"1", number=7), kind=SENT),
            *(read("ann", "k", b"0"), put("bob", "k", b"2"), put("ann", "k", b"1", number=7, late=True)),
        ],
        {"k": b"0"},
    ),
    "the same write again, whose content is not known": (
        "register",
        [read("ann", "k", b"0"), replace(put("bob", "k", b"1"), body=None), put("ann", "k", b"1")],
        {"k": b"0"},
    ),
    "objects besides those that are written once": (
        "once=files/",
        [put("ann", "other/a", b"1"), put("bob", "other/a", b"2")],
        {},
    ),
    "an object that is replaced while it is named": (
        "references=m",
        [put("ann", "d/1", b"1"), put("ann", "m", b'["d/1"]'), put("ann", "d/1", b"2")],
        {},
    ),
    "a record without the number that rises": (
        "log=log/,rising=epoch",
        [put("ann", "log/1", b'{"epoch": 2}'), put("bob", "log/2", b"{}")],
        {},
    ),
    "a lease that has ended": (
        "lock=k",
        [
            put("ann", "k", b'{"expires": 1700000060}', t_ns=START),
            put("bob", "k", b'{"expires": 1700000160}', t_ns=START + 61 * 10**9),
        ],
        {},
    ),
    "a free state is no lock": (
        "lock=k",
        [put("ann", "k", b'{"owner": ""}'), put("bob", "k", b"bob"), delete("bob", "k")],
        {},
    ),
    "two seals": ("log=log/", [put("ann", "log/1", b"SEAL"), put("bob", "log/2", b"SEAL")], {}),
    "numbers that are used again": (
        "log=log/,reuse=yes",
        [LOG_1, delete("b", "log/1"), put("cid", "log/1", b"c"), end("cid")],
        {},
    ),
    "a file that is named after it is there": (
        "manifest=m",
        [put("ann", "b/data/1", b""), put("ann", "b/m", b'["data/1"]')],
        {},
    ),
    "a file of another folder": ("references=head", [put("gc", "mark/seg/2", b"1")], {"head": b'"seg/2"'}),
    "an old manifest may name what is gone": (
        "manifest=m/",
        [put("ann", "b/m/2", b"[]"), delete("gc", "b/data/1")],
        {"b/m/1": b'["data/1"]', "b/data/1": b""},
    ),
    "the same record by two helpers": (
        "queue=jobs/",
        [put("a", "done/1", b"a"), put("b", "done/1", b"a")],
        {},
    ),
    "a job that is moved": (
        "queue=jobs/",
        [put("a", "running/1", b""), delete("a", "jobs/1")],
        {"jobs/1": b""},
    ),
    "one leader": ("agree=leads", [note("ann", "leads", "ann"), note("bob", "leads", "ann")], {}),
    "a row that is kept": ("kept=acknowledged", [note("ann", "acknowledged", "row 1")], {"log/1": b"row 1"}),
    "no reply is no report": ("report=k", [put("ann", "k", b"a", acknowledged=False), end("ann", False)], {}),
    "a lease that ends in this nanosecond": (
        "lock=k,ttl=60",
        [put("ann", "k", b"ann", t_ns=START), put("bob", "k", b"bob", t_ns=START + 60 * 10**9)],
        {},
    ),
    "a crashed holder leaves its lock to the others": ("lock=k", [put("ann", "k", b"ann"), crash("ann")], {}),
    "a name that comes back without a reply": (
        "once=f/",
        [
            put("ann", "f/a", b"1"),
            delete("b", "f/a"),
            put("cid", "f/a", b"2", acknowledged=False),
            end("cid"),
        ],
        {},
    ),
    "one life may write the same record twice": (
        "log=log/",
        [LOG_1, put("ann", "log/2", b"a", "absent")],
        {},
    ),
    "a job that is submitted again": (
        "queue=jobs/",
        [
            *(put("a", "done/1", b""), delete("a", "jobs/1"), put("ann", "jobs/1", b"")),
            *(put("b", "dead/1", b""), delete("b", "jobs/1")),
        ],
        {"jobs/1": b""},
    ),
    "a name of what is there again": (
        "references=m",
        [delete("gc", "b/data/1"), put("ann", "b/data/1", b""), put("ann", "b/m", b'["data/1"]')],
        {"b/data/1": b""},
    ),
    "a marker of another life": (
        "manifest=B/meta",
        [put("ann", "b/B/1", b"x"), crash("ann"), delete("gc", "b/B/1"), put("ann", "b/B/meta", b"{}")],
        {},
    ),
    "a create where the other deleted": (
        "register",
        [read("ann", "k", b"a"), delete("bob", "k"), put("ann", "k", b"b", "absent")],
        {"k": b"a"},
    ),
    "a delete of another version that the store allowed": (
        "register",
        [look("ann", "k"), put("bob", "k", b"new"), delete("ann", "k", "matches")],
        {"k": b"old"},
    ),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=[*BROKEN])
def test_a_broken_run_is_found(case: Case) -> None:
    text, seen, objects = case
    assert judged(text, seen, objects)


@pytest.mark.parametrize("case", FINE.values(), ids=[*FINE])
def test_a_good_run_is_no_false_alarm(case: Case) -> None:
    text, seen, objects = case
    assert judged(text, seen, objects) is None


D_1 = {"m": b'["d/1"]', "d/1": b""}
FOLLOWED = [put("ann", "m", b"[]"), delete("ann", "d/1")]
MARKED = [crash("ann"), crash("bob")]
DISTINGUISHED: dict[str, tuple[str, dict[str, bytes], list[Observation], list[Observation], Observation]] = {
    "what a reader has seen": (
        "log=log/,reader=bob",
        {},
        [read("bob", "log/2", None), LOG_1],
        [LOG_1, read("bob", "log/1", b"a")],
        end("bob"),
    ),
    "a record that was acknowledged the second time": (
        "log=log/,reader=bob",
        {},
        [read("bob", "log/2", None), replace(LOG_1, acknowledged=False), LOG_1],
        [read("bob", "log/2", None), *[replace(LOG_1, acknowledged=False)] * 2],
        end("bob"),
    ),
    "the last state of a job": (
        "queue=jobs/",
        {},
        [put("ann", "jobs/1", b'{"state": "done"}'), put("ann", "jobs/1", b"{}")],
        [put("ann", "jobs/1", b'{"state": "open"}'), put("ann", "jobs/1", b"{}")],
        put("bob", "jobs/1", b'{"state": "open"}'),
    ),
    "when a name was read": (
        "references=m,data=d/,grace=20",
        D_1,
        [read("bob", "m", b'["d/1"]'), *FOLLOWED],
        FOLLOWED,
        read("bob", "d/1", None, t_ns=5 * 10**9),
    ),
    "what was deleted": (
        "references=m,data=d/",
        {},
        [put("ann", "d/1", b""), delete("ann", "d/1")],
        [],
        put("ann", "m", b'["d/1"]'),
    ),
    "what a marker stands for": (
        "manifest=t/done",
        {},
        [put("ann", "t/a", b""), put("ann", "t/done", b""), *MARKED],
        [put("bob", "t/a", b""), put("ann", "t/done", b""), *MARKED],
        delete("cid", "t/a"),
    ),
    "who looked, and did not only write": (
        "register",
        {},
        [put("ann", "k", b"1"), read("ann", "k", b"1"), put("bob", "k", b"2")],
        [put("ann", "k", b"1"), put("bob", "k", b"2")],
        put("ann", "k", b"3"),
    ),
    "a holder that has ended, and did not crash": (
        "lock=k",
        {},
        [put("ann", "k", b"ann", "absent"), end("ann")],
        [put("ann", "k", b"ann", "absent"), crash("ann")],
        read("bob", "k", b"ann"),
    ),
}
"""A promise, what exists, and two beginnings, of which only the first is broken by what follows."""


@pytest.mark.parametrize("case", DISTINGUISHED)
def test_two_beginnings_with_different_ends_leave_two_states(case: str) -> None:
    """A process may forget what it did, so a search compares no more than the objects and the state."""
    text, objects, broken, good, then = DISTINGUISHED[case]
    states = []
    for seen in (broken, good):
        promise = parse(text)
        promise.begin({key: (body, digest_of(body)) for key, body in objects.items()})
        assert not any(map(promise.observe, seen))
        states.append(promise.state())
        reason = promise.observe(then) or promise.finish(whole=True)
        assert bool(reason) == (seen is broken), reason
    assert states[0] != states[1]


def test_versions_since_a_refused_write_are_in_the_state() -> None:
    """What its sender sends again is judged by all that came since, although it has read the last one."""
    text, seen, objects = BROKEN["a put that was refused, and sent again after others"]
    states = []
    for acknowledged in (True, False):
        some = [replace(one, acknowledged=acknowledged) if one.process == "bob" else one for one in seen]
        promise = parse(text)
        promise.begin({key: (body, digest_of(body)) for key, body in objects.items()})
        *before, again = some
        # The others have forgotten what they wrote.
        assert not any(map(promise.observe, [*before, crash("bob"), crash("cid")]))
        states.append(promise.state())
        assert bool(promise.observe(again)) == acknowledged
    assert states[0] != states[1]


def test_the_reason_says_how_much_of_a_lease_was_left() -> None:
    text, seen, objects = BROKEN["a lease that is taken too early"]
    assert str(judged(text, seen, objects)).endswith("which still runs, 1 s before its lease ends")
    text, seen, objects = BROKEN["a lock that is robbed"]
    assert str(judged(text, seen, objects)).endswith("which still runs")


def test_who_crashed_for_good_owes_nothing() -> None:
    text, seen, objects = BROKEN["dirt that is left"]
    assert judged(text, seen, objects, whole=False) is None


def test_every_kind_is_tried_both_ways() -> None:
    """If this fails, a kind of promise was added and no run shows what it finds and what it leaves alone."""
    assert {text.partition("=")[0] for text, _, _ in BROKEN.values()} == set(PROMISES)
    assert set(PROMISES) - {text.partition("=")[0] for text, _, _ in FINE.values()} == {"gone"}


@pytest.mark.parametrize("text", ["queue=jobs/,done=finished/", "register", "lock=k,ttl=60,released=no"])
def test_a_promise_is_named_as_it_is_written(text: str) -> None:
    assert parse(text).name == text
    assert parse(parse(text).name).name == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lick=k", "no promise is called 'lick'"),
        ("lock", "lock needs a target"),
        ("lock=k,tll=60", "has no option 'tll'"),
        ("lock=k,ttl=soon", "no number of seconds"),
        ("lock=k,released=maybe", "must be yes or no"),
        ("queue=jobs/,done", "must read NAME=VALUE"),
        ("queue=jobs/,done=a,done=b", "done twice"),
    ],
)
def test_a_text_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadPromise, match=message):
        parse(text)
