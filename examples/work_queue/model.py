"""One job of the work queue, as the store shows it.

none --created--> claimed --completed--> done --claim_deleted--> none
                  |  ^  \\----died-----> dead --claim_deleted--> none
     prolonged, taken_over, given_back
"""

from fencepost.model import *


class WorkQueue(Machine):
    """Workers claim a job, prolong the claim and complete it, or give it back; a janitor collects what is
    over.
    """

    workers = Size(2, most=16)
    attempts = Size(3, most=7, doc="attempts before a job is dead")

    safeguards = {
        "fence": "only the owner of the claim completes the job",
        "look-again": "a worker with a new claim looks whether the job is still there",
        "record-first": "the record is written before the job is deleted",
        "count": "a job is dead once its attempts are used up, and not before",
    }

    job = Bool(start=True)
    claim = Enum("none", "claimed", "done", "dead")
    owner = Id(workers, nobody=True)
    attempt = Int(0, attempts)
    done, dead = Bool(), Bool()  # the records
    completed_by = Id(workers, nobody=True)  # for the properties: the owner when the job was completed
    stolen = Bool()  # for the properties: it was completed by another

    # Workers.

    @action(w=workers)
    def created(s, w: int) -> None:
        s.require(s.claim == "none")
        s.claim = "claimed"
        s.owner = w
        s.attempt = 1

    @action(w=workers)
    def prolonged(s, w: int) -> None:
        s.require((s.claim == "claimed") & (s.owner == w))

    @action(w=workers)
    def taken_over(s, w: int) -> None:
        s.require(s.claim == "claimed")
        s.require(s.attempt < s.attempts)
        s.attempt += 1
        s.owner = w

    @action(w=workers)
    def completed(s, w: int) -> None:
        s.require((s.claim == "claimed") & (s.owner == w))
        s.require(s.job)
        s.complete(w)

    @without("look-again", replaces=completed)
    def completed_unseen(s, w: int) -> None:
        s.require((s.claim == "claimed") & (s.owner == w))
        s.complete(w)

    @without("fence", replaces=completed)
    def completed_by_anybody(s, w: int) -> None:
        s.require((s.claim == "claimed") | (s.claim == "done"))
        s.stolen = s.stolen | (s.owner != w)
        s.complete(w)

    def complete(s, w: int) -> None:
        s.claim = "done"
        s.completed_by = w

    @action
    def died(s) -> None:
        s.require((s.claim == "claimed") & (s.attempt == s.attempts))
        s.require(s.job)
        s.claim = "dead"

    @without("count", replaces=died)
    def died_early(s) -> None:
        s.require(s.claim == "claimed")
        s.claim = "dead"

    @action
    def given_back(s) -> None:
        """The job was collected before the claim was created."""
        s.require((s.claim == "claimed") & ~s.job)
        s.claim = "none"

    # Anybody.

    @action
    def recorded_done(s) -> None:
        s.require(~s.done & (s.claim == "done"))
        s.done = True

    @action
    def recorded_dead(s) -> None:
        s.require(~s.dead & (s.claim == "dead"))
        s.dead = True

    # The janitor.

    @action
    def job_deleted(s) -> None:
        s.require(s.job)
        s.require(s.done | s.dead)
        s.job = False

    @without("record-first", replaces=job_deleted)
    def job_deleted_early(s) -> None:
        s.require(s.job)
        s.require((s.claim == "done") | (s.claim == "dead"))
        s.job = False

    @action
    def claim_deleted(s) -> None:
        s.require((s.claim == "done") | (s.claim == "dead"))
        s.require(~s.job)
        s.claim = "none"

    # Properties.

    @invariant
    def one_fate(s) -> Truth:
        """No job is both done and dead."""
        return ~(s.done & s.dead)

    @invariant
    def nothing_lost(s) -> Truth:
        """The job is there, or a record of it."""
        return s.job | s.done | s.dead

    @invariant
    def completed_by_its_owner(s) -> Truth:
        """No worker completes a job whose claim another worker has."""
        return ~s.stolen

    @invariant
    def dead_after_all_attempts(s) -> Truth:
        """A job is dead only after its last attempt."""
        return ~s.dead | (s.attempt == s.attempts) | ~s.job

    @reachable
    def can_be_done(s) -> Truth:
        """A job can be done."""
        return s.done

    @reachable
    def can_be_dead(s) -> Truth:
        """A job can die."""
        return s.dead
