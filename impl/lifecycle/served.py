"""The side of an object server that workers on other machines use: its log, and deletions under their guard.

    server = ObjectServer(buckets, credentials, extensions=lambda: [ServedLifecycle(buckets)])

Each request is about one bucket, and its signer may use that bucket. An answer is bounded: a page of the log
ends after so many events of the bucket, or after so many that were passed for it.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.impl.lifecycle import wire
from fencepost.impl.lifecycle.cursors import before
from fencepost.impl.lifecycle.directory import DirectoryTarget
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.expiration import Expirer
from fencepost.impl.lifecycle.log import ChangeLogReader
from fencepost.impl.lifecycle.policy import Timing, What
from fencepost.impl.lifecycle.target import Needs, Result, Unavailable, Unworkable
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.wire.errors import refuse

PASSED_MAX = 100_000
"""Events of other buckets that one answer passes."""
READERS_MAX = 16
"""For each bucket, so that a client of one bucket cannot keep the log for ever under ever new names."""
READER_LENGTH_MAX = 100


class ServedLifecycle:
    place = wire.PLACE

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._target = DirectoryTarget(buckets)
        self._reader = ChangeLogReader(buckets.log, buckets.index)
        self._access = logging.getLogger("fencepost.objects.access")
        self._operations: Mapping[str, Callable[[str, wire.Fields], wire.Fields]] = {
            "log": self._log,
            "hold": self._hold,
            "rules": lambda bucket, _: {"text": self._buckets.document(bucket).lifecycle},
            "page": self._page,
            "first": lambda bucket, fields: {
                "key": self._target.first(bucket, str(fields["after"]), str(fields["prefix"]))
            },
            "standing": lambda bucket, fields: wire.standing_to(
                self._target.standing(bucket, str(fields["key"]), Needs(**fields["needs"]))
            ),
            "expire": self._expire,
        }

    def answer(self, bucket: str, operation: str, body: bytes) -> tuple[wire.Fields, float]:
        """Raises `S3Error` for what makes no sense, as the rest of the server does."""
        act = self._operations.get(operation)
        if act is None:
            refuse("NotImplemented", f"{operation} is not implemented")
        self._buckets.document(bucket)
        try:
            fields = json.loads(body)
            if not isinstance(fields, dict):
                raise ValueError("no object")
            found = act(bucket, fields)
            is_empty = operation == "log" and bool(found["is_whole"]) and not found["events"]
            return found, float(fields.get("wait_s", 0.0)) if is_empty else 0.0
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            refuse("InvalidRequest", f"The request is malformed: {type(error).__name__}")
        except Unworkable as error:
            return {"unworkable": str(error)}, 0.0
        except Unavailable as error:
            return {"unavailable": str(error)}, 0.0

    def _log(self, bucket: str, fields: wire.Fields) -> wire.Fields:
        shard, after = ChangeLogReader.SHARD, str(fields["after"])
        limit = min(max(int(fields.get("limit", wire.EVENTS_MAX)), 0), wire.EVENTS_MAX)
        settled_ns = self._reader.settled_ns(shard)
        found: list[Any] = []
        is_whole, last = False, after
        events = self._reader.events(shard, after, settled_ns) if limit else iter(())
        for passed, event in enumerate(events):
            if len(found) >= limit or passed >= PASSED_MAX:
                break
            last = event.position
            if event.change.bucket == bucket:
                found.append(wire.event_to(event))
        else:
            is_whole, last = limit > 0, max(last, before(settled_ns + 1)) if limit else after
        return {
            "events": found,
            "next": last,
            "is_whole": is_whole,
            "settled_ns": settled_ns,
            # After the events: what the log lost while they were read is missing from them.
            "begins_ns": self._reader.begins_ns(shard),
            "retention_ns": self._reader.retention_ns,
        }

    def _page(self, bucket: str, fields: wire.Fields) -> wire.Fields:
        after, prefix = str(fields["after"]), str(fields["prefix"])
        page = self._target.page(bucket, after, prefix, uploads=bool(fields["uploads"]))
        return {"listed": [wire.listed_to(one) for one in page]}

    def _hold(self, bucket: str, fields: wire.Fields) -> wire.Fields:
        name = str(fields["reader"])
        if not name or len(name) > READER_LENGTH_MAX:
            raise ValueError("the name of a reader has up to 100 characters")
        reader, after_ns = f"{bucket}/{name}", fields["after_ns"]
        readers = [one for one in self._buckets.log.readers() if one.startswith(f"{bucket}/")]
        if after_ns is not None and reader not in readers and len(readers) >= READERS_MAX:
            refuse("SlowDown", f"The log has {READERS_MAX} readers for this bucket; forget one of them")
        self._buckets.log.hold(reader, None if after_ns is None else int(after_ns))
        return {}

    def _expire(self, bucket: str, fields: wire.Fields) -> wire.Fields:
        key, action_key = str(fields["key"]), wire.action_of(str(fields["action"]))
        what, looked_at = What(fields["what"]), wire.live_of(fields["looked_at"])
        timing = Timing(day_ns=int(fields["day_ns"]))
        if timing.day_ns < 1:
            raise ValueError("a day has a length")
        rules = [rule for rule in self._target.rules(bucket) if action_key in rule.actions()]
        if not rules:
            result = Result.STALE_POLICY
        else:
            expirer = Expirer(self._target, self._buckets.env, timing)
            action = Action(bucket, action_key, rules[0], is_active=True)
            result = expirer.delete(bucket, key, action, looked_at, what)
        name = rules[0].name if rules else ""
        self._access.info(
            "lifecycle:%s:%a %s %s/%a %a %s",
            action_key.rule_hash.hex(), name, what.value, bucket, key[:200],
            looked_at.version.version_id, result.value,
        )  # fmt: skip
        return {"result": result.value}
