"""The objects of the target are jobs: each is done once or dead, never both, and none is forgotten.

    jobs/J     a job, until somebody deletes it
    done/J     the record that it is done; `done=` names another folder
    dead/J     the record that it was given up; `dead=` names another folder

A violation is

- a job with both records, at once or one after the other.
- a record that is written over with another content, or again after it was deleted: done twice.
- at the end of a run: a job that was deleted, of which there is no record, and no other object has its name.
- a job whose body has a field `state` or `status` that goes from a last state (done, dead, failed, ...) to
  another.

A job that is submitted again under its old name, after it was deleted, is a new one.
"""

from collections.abc import Hashable, Mapping
from typing import ClassVar

from fencepost.properties.promises.contents import field_of
from fencepost.properties.promises.observation import CHANGES, DELETE, WRITE, Observation
from fencepost.properties.promises.promise import Promise
from fencepost.properties.promises.targets import Target

LAST = frozenset(
    {"done", "complete", "completed", "finished", "succeeded", "success", "ok", "dead", "failed"}
    | {"error", "cancelled", "canceled", "given-up"}
)
"""States that no job leaves."""


class Queue(Promise):
    kind = "queue"
    meaning = "each job is done once or dead, never both, and none is forgotten"
    options: ClassVar[Mapping[str, str]] = {
        "done": "the records of jobs that are done (default: done/ beside the jobs)",
        "dead": "the records of jobs that were given up (default: dead/ beside the jobs)",
    }

    def __init__(self, target: str, given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._records = {
            name: Target(self.given[name]) if name in self.given else self.target.sibling(name)
            for name in ("done", "dead")
        }
        self._jobs: dict[str, bool] = {}
        """Every job that ever was: True as long as its object exists."""
        self._ends: dict[str, dict[str, tuple[str, str, bool]]] = {}
        """By job and kind of record: its hash, its writer, and whether it exists."""
        self._states: dict[str, str] = {}
        """By job: the last state that its body named."""
        self._others: set[str] = set()
        """The other objects that exist."""

    def begin(self, objects: Mapping[str, tuple[bytes | None, str]]) -> None:
        for key, (body, digest) in objects.items():
            self._take(Observation(WRITE, "setup", "setup", key=key, body=body, digest=digest))

    def _place(self, key: str) -> tuple[str, str]:
        """Return the kind of an object (job, done, dead or other), and its job."""
        if self.target.holds(key):
            return "job", self.target.below(key)
        for name, target in self._records.items():
            if target.holds(key):
                return name, target.below(key)
        return "", key

    def orders(self, seen: Observation) -> bool:
        return bool(seen.asked) and bool(self._place(seen.key)[0])

    def observe(self, seen: Observation) -> str | None:
        return self._take(seen) if seen.kind in CHANGES else None

    def _take(self, seen: Observation) -> str | None:
        kind, job = self._place(seen.key)
        if kind == "job":
            return self._job(seen, job)
        if kind:
            return self._record(seen, kind, job)
        if seen.kind == WRITE:
            self._others.add(seen.key)
        else:
            self._others.discard(seen.key)
        return None

    def _job(self, seen: Observation, job: str) -> str | None:
        if seen.kind == DELETE:
            self._jobs[job] = False
            self._states.pop(job, None)
            return None
        if not self._jobs.get(job, True):
            self._ends.pop(job, None)  # submitted again: a new job
        self._jobs[job] = True
        found = None if seen.body is None else field_of(seen.body, "state") or field_of(seen.body, "status")
        state = found.lower() if isinstance(found, str) else ""
        before = self._states.get(job, "")
        if state:
            self._states[job] = state
        if before in LAST and state and state != before:
            return f"{seen.process} took the job {job} from {before} to {state}"
        return None

    def _record(self, seen: Observation, kind: str, job: str) -> str | None:
        records = self._ends.setdefault(job, {})
        before = records.get(kind)
        if seen.kind == DELETE:
            if before is not None:
                records[kind] = (before[0], before[1], False)
            return None
        records[kind] = (seen.digest, seen.process, True)
        other = records.get("dead" if kind == "done" else "done")
        if other is not None:
            return f"{seen.process} recorded the job {job} as {kind}, and {other[1]} as the opposite before"
        if before is None:
            return None
        if not before[2]:
            return f"{seen.process} recorded the job {job} as {kind} again, after its record was deleted"
        if before[0] != seen.digest:
            return f"{seen.process} recorded the job {job} as {kind}, and {before[1]} had done so before"
        return None

    def finish(self, *, whole: bool) -> str | None:
        del whole
        for job, there in sorted(self._jobs.items()):
            if there or self._ends.get(job) or any(job in key.split("/") for key in self._others):
                continue
            return f"the job {job} was deleted, and it is neither done nor dead"
        return None

    def state(self) -> Hashable:
        return (
            tuple(sorted(self._jobs.items())),
            tuple((job, tuple(sorted(records.items()))) for job, records in sorted(self._ends.items())),
            tuple(sorted(self._states.items())),
        )
