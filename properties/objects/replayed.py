"""The refinement map of a live object server: the calls of one write as actions of `ObjectsObserved`.

`objects serve --record` notes the calls of each write (`impl.objects.calls`). A run is one write, whose calls
one thread makes in order. It is writer 0 of the machine. The others are hidden: at any time another request
may change the object or take the key's lock. So the map needs no order between processes, and the number of
requests has no bound. It judges what each write must do by itself, whatever the others do:

    a create names its file by `link`; every other write acts by `rename` or `unlink`, under the key's lock
    the folder is flushed after that and before the index records it
    the answer `done` follows the index; `refused` needs a condition that does not hold

Continuity judges what the writes of one key did to each other, from the access log of the same trace.
"""

from fencepost.impl.objects.calls import TOPICS
from fencepost.model import Label, Model, Truth
from fencepost.model.objects_observed import ObjectsObserved
from fencepost.properties.refinement import (
    STUTTER,
    Actions,
    LinkedRuns,
    Observation,
    Refinement,
    RequestRules,
    where,
)

OTHERS = ("staged", "created", "locked", "renamed")
"""Actions of other requests that this one may notice."""


class ObjectsReplayed(Refinement):
    trace_fields = ("kind", "ended")
    kinds = frozenset()
    notes = frozenset(TOPICS)
    left_out = ("power_lost", "power_lost_after", "reconciled")
    # A write has its name in each of its notes, and nothing links others to it.
    runs = LinkedRuns("write", r"(?:^| )server-write=(?P<run>[^ ]+)", r"(?P<link>[^\s\S])")
    request_rules = RequestRules(
        not_judged=(
            "what the writes of one key did to each other: replay the access log without --model",
            "the content of files, and their fsync before they are published",
            "buckets that keep versions, and removals of a version",
            "power losses, and what a server does when it starts",
            "writes whose beginning the trace does not have",
        )
    )

    def __init__(self) -> None:
        super().__init__(Model(ObjectsObserved, {"writers": 3}))

    def hides(self, label: Label) -> bool:
        is_own = dict(label.parameters).get("w") == 0
        return label.action == "refused" if is_own else label.action in OTHERS

    def shows(self, label: Label) -> bool:
        return super().shows(label) and dict(label.parameters).get("w") == 0

    def covering(self) -> None:
        """There is no bound at which the transitions of one write could be counted."""

    def actions(self, seen: Observation) -> Actions:
        if seen.what == "staged":
            return self.does("staged", w=0, kind=seen.trace_field("kind"))
        return (
            *self._of(seen),
            *where("its beginning is not known", lambda s: s.writer[0].at == "new", STUTTER),
        )

    def _of(self, seen: Observation) -> Actions:
        done = seen.trace_field("ended") == "done"
        match seen.what:
            case "linked":
                # It tries again where the object that prevented it is gone by then.
                return self.does("created", w=0) if done else (*self.does("create_refused", w=0), *STUTTER)
            case "answered" if done:
                return self.does("acknowledged", w=0)
            case "answered":
                return where("its condition does not hold", _is_refused, STUTTER)
            case "unchanged":
                return where("there is no object", lambda s: s.is_absent(s.entry), STUTTER)
            case action:
                return self.does(action, w=0)


def _is_refused(s: ObjectsObserved) -> Truth:
    """Without the lock, too: the server looks before it writes, and spares the work."""
    me = s.writer[0]
    return (me.at == "refused") | ((me.at == "staged") & ~s.is_met(0))
