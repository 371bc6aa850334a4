"""Commit of a transaction, as its managers see it: what two-phase commit must do."""

from fencepost.model import *


class TransactionCommit(Machine):
    """A manager commits only if all are prepared or have committed."""

    managers = Size(5)
    symmetric = ("managers",)
    manager = Each(managers, Enum("working", "prepared", "committed", "aborted"))

    @action(m=among(managers, manager="working"))
    def prepare(s, m: int) -> None:
        s.manager[m] = "prepared"

    @action(m=among(managers, manager="prepared"))
    def commit(s, m: int) -> None:
        s.require(s.manager.all(lambda other: other.is_in("prepared", "committed")))
        s.manager[m] = "committed"

    @action(m=among(managers, manager=("working", "prepared")))
    def abort(s, m: int) -> None:
        s.require(~s.manager.any("committed"))
        s.manager[m] = "aborted"

    agreement = invariant("No manager has committed while another has aborted.")(
        lambda s: ~(s.manager.any("committed") & s.manager.any("aborted"))
    )

    @may_end
    def over(s) -> Truth:
        return s.manager.all("committed") | s.manager.all("aborted")
