"""What one process has done since it began, counted by bucket, rule and kind."""

import threading
from collections import Counter

from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.target import Result


class Tally:
    """Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.evaluated: Counter[tuple[str, str]] = Counter()
        """Versions that an action applied to, due or not: bucket and rule."""
        self.expired: Counter[tuple[str, str, str]] = Counter()
        """What was deleted: bucket, rule and kind of the action."""
        self.locked: Counter[tuple[str, str]] = Counter()
        """What an object lock kept: bucket and rule."""
        self.errors: Counter[tuple[str, str]] = Counter()
        """Attempts that failed: bucket, and `unavailable` or `unworkable`."""

    def looked(self, action: Action, result: Result | None) -> None:
        """At a version that the action applies to; without a result it was not due."""
        rule = action.key.rule_hash.hex()
        with self._lock:
            self.evaluated[action.bucket, rule] += 1
            if result is Result.DONE:
                self.expired[action.bucket, rule, action.key.kind_name] += 1
            elif result is Result.SKIPPED_OBJECT_LOCK:
                self.locked[action.bucket, rule] += 1

    def failed(self, bucket: str, kind: str) -> None:
        with self._lock:
            self.errors[bucket, kind] += 1
