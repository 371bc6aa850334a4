"""Two-phase commit: the transaction manager, its resource managers, and the set of all messages sent.

The classic small machine, with the constants every checker agrees on: 3, 5, 7 and 9 managers have
288, 8,832, 296,448 and 10,340,352 distinct states. Messages are never lost and never forgotten, so
"sent" is a flag and receiving one twice changes nothing.

Each of prepare, decide and receive is a step of its own, because another process may act between any two of
them; sending a message and changing one's own state are one step, as no other process sees that state.
"""

from fencepost.model import *


class TwoPhase(Machine):
    """Two-phase commit of one transaction by a number of resource managers."""

    managers = Size(3, most=60, doc="resource managers, all of which must agree")

    safeguards = {
        "all-prepared": "the transaction is committed only when every manager has reported itself prepared",
        "no-abort-once-prepared": "a manager that has prepared no longer aborts on its own",
    }

    symmetric = ("managers",)

    manager = Each(managers, Enum("working", "prepared", "committed", "aborted"))
    decision = Enum("init", "committed", "aborted")
    prepared = Each(managers, Bool())  # received by the transaction manager
    sent_prepared = Each(managers, Bool())
    sent_commit = Bool()
    sent_abort = Bool()

    def may_commit(s) -> Truth:
        return s.prepared.all(True)

    @without("all-prepared", replaces=may_commit)
    def may_commit_early(s) -> bool:
        return True

    @action
    def commit(s) -> None:
        s.require(s.decision == "init")
        s.require(s.may_commit())
        s.decision = "committed"
        s.sent_commit = True

    @action
    def abort(s) -> None:
        s.require(s.decision == "init")
        s.decision = "aborted"
        s.sent_abort = True

    @action(m=managers)
    def hear_prepared(s, m: int) -> None:
        s.require((s.decision == "init") & s.sent_prepared[m])
        s.prepared[m] = True

    @action(m=managers)
    def prepare(s, m: int) -> None:
        s.require(s.manager[m] == "working")
        s.manager[m] = "prepared"
        s.sent_prepared[m] = True

    @action(m=managers)
    def choose_to_abort(s, m: int) -> None:
        s.require(s.manager[m] == "working")
        s.manager[m] = "aborted"

    @without("no-abort-once-prepared", replaces=choose_to_abort)
    def choose_to_abort_late(s, m: int) -> None:
        s.require(s.manager[m].is_in("working", "prepared"))
        s.manager[m] = "aborted"

    @action(m=managers)
    def hear_commit(s, m: int) -> None:
        s.require(s.sent_commit)
        s.manager[m] = "committed"

    @action(m=managers)
    def hear_abort(s, m: int) -> None:
        s.require(s.sent_abort)
        s.manager[m] = "aborted"

    @invariant
    def agreement(s) -> Truth:
        """No manager has committed while another has aborted."""
        return ~(s.manager.any("committed") & s.manager.any("aborted"))

    @step
    def decision_stands(before, after: "TwoPhase") -> Truth:
        """The transaction manager never changes its decision."""
        return implies(before.decision != "init", after.decision == before.decision)

    @reachable
    def all_commit(s) -> Truth:
        """The transaction can commit everywhere."""
        return s.manager.all("committed")

    @reachable
    def all_abort(s) -> Truth:
        """The transaction can abort everywhere."""
        return s.manager.all("aborted")

    @may_end
    def finished(s) -> Truth:
        return s.manager.all("committed") | s.manager.all("aborted")
