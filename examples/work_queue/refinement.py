"""The map from the requests of the work queue to its model. A run is one job."""

from typing import ClassVar

from fencepost.examples.work_queue.model import WorkQueue
from fencepost.model import Model
from fencepost.properties.refinement import (
    STUTTER,
    Actions,
    Keys,
    Observation,
    Refinement,
    RequestRules,
    Role,
    where,
)


class QueueMap(Refinement):
    """The claim shows everything but the deletions and the records, which have keys of their own."""

    keys = (
        Keys("claim", "(?:.+/)?claims/(?P<job>[^/]+)"),
        Keys("job", "(?:.+/)?jobs/(?P<job>[^/]+)"),
        Keys("record", "(?:.+/)?(?P<fate>done|dead)/(?P<job>[^/]+)"),
    )
    runs = "key:job"
    roles = (Role("worker", ("process",), most=7),)
    trace_fields: ClassVar = ("state", "attempt")
    request_rules = RequestRules(conditions={"claim": ("absent", "matches"), "record": ("absent",)})

    def __init__(self, workers: int = 8) -> None:
        super().__init__(Model(WorkQueue, {"workers": workers}))

    def actions(self, seen: Observation) -> Actions:
        if not seen.done:
            return STUTTER
        w = seen.rank("process")
        match seen.what, seen.kind:
            case "claim", "put":
                return self._of_claim(seen, w)
            case "claim", "delete":
                gone = where("there is none", lambda s: s.claim == "none", STUTTER)
                return self.does("claim_deleted") + self.does("given_back") + gone
            case "job", "delete":
                gone = where("it is gone", lambda s: ~s.job, STUTTER)
                return self.does("job_deleted") + gone
            case "record", "put":
                return self.does("recorded_done") + self.does("recorded_dead")
        return STUTTER

    def _of_claim(self, seen: Observation, w: int) -> Actions:
        match seen.trace_field("state"):
            case "done":
                return self.does("completed", w=w)
            case "dead":
                return self.does("died")
        if seen.condition == "absent":
            return self.does("created", w=w)
        return self.does("prolonged", w=w) + self.does("taken_over", w=w)
