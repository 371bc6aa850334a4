"""The messages between a worker of a lifecycle and an object server that is not on its machine.

Each is a signed POST with a JSON object, at `/_lifecycle/v1/BUCKET/OPERATION`:

    log        {after, limit, wait_s}   -> {events, next, is_whole, settled_ns, begins_ns, retention_ns}
    hold       {reader, after_ns}       -> {}
    rules      {}                       -> {text}
    page       {after, prefix, uploads} -> {listed}
    first      {after, prefix}          -> {key}
    standing   {key, needs}             -> {versions, uploads, is_versioned}
    expire     {key, looked_at, what, action, day_ns}   -> {result}

`expire` is one step with its guard, as on the machine of the server: under the lock of the key the version
must be the one that was looked at, the action in force in the rules of the bucket, and the version due.
"""

from dataclasses import asdict
from typing import Any

from fencepost.impl.lifecycle.engine import Change, Seen
from fencepost.impl.lifecycle.log import Event
from fencepost.impl.lifecycle.policy import ActionKey, Version
from fencepost.impl.lifecycle.target import Listed, Live, Standing

PLACE = "_lifecycle"
"""No bucket can have this name."""
VERSION = "v1"
EVENTS_MAX = 5_000
"""In an answer."""
Fields = dict[str, Any]


def path_of(bucket: str, operation: str) -> str:
    return f"/{PLACE}/{VERSION}/{bucket}/{operation}"


def live_to(live: Live) -> Fields:
    return {"version": asdict(live.version), "content": live.content, "is_locked": live.is_locked}


def live_of(fields: Fields) -> Live:
    version = dict(fields["version"])
    version["tags"] = tuple((name, value) for name, value in version["tags"])
    version["newer_since_ns"] = tuple(version["newer_since_ns"])
    return Live(Version(**version), str(fields["content"]), bool(fields["is_locked"]))


def standing_to(found: Standing) -> Fields:
    versions, uploads = ([live_to(one) for one in each] for each in (found.versions, found.uploads))
    return {"versions": versions, "uploads": uploads, "is_versioned": found.is_versioned}


def standing_of(fields: Fields) -> Standing:
    versions, uploads = (tuple(live_of(one) for one in fields[name]) for name in ("versions", "uploads"))
    return Standing(versions, uploads, bool(fields["is_versioned"]))


def listed_to(listed: Listed) -> list[Any]:
    return [listed.key, None if listed.shown is None else standing_to(listed.shown), listed.is_look]


def listed_of(row: list[Any]) -> Listed:
    key, shown, is_look = row
    return Listed(str(key), None if shown is None else standing_of(shown), bool(is_look))


def event_to(event: Event) -> list[Any]:
    change = event.change
    seen = [None if one is None else list(asdict(one).values()) for one in (change.old, change.new)]
    return [event.ts_ns, event.offset, change.key, *seen, change.is_upload]


def event_of(bucket: str, row: list[Any]) -> Event:
    ts_ns, offset, key, old, new, is_upload = row
    return Event(int(ts_ns), int(offset), Change(bucket, key, _seen(old), _seen(new), bool(is_upload)))


def _seen(row: list[Any] | None) -> Seen | None:
    if row is None:
        return None
    mtime_ns, size, content, tags = row
    return Seen(int(mtime_ns), int(size), content, tuple((name, value) for name, value in tags))


def action_of(text: str) -> ActionKey:
    """Raise `ValueError` unless it is the text of an action."""
    rule, _, kind = text.partition("/")
    key = ActionKey(bytes.fromhex(rule), kind)
    _ = key.kind
    return key
