"""Cigarette smokers: a dealer offers two of three ingredients, and the smoker with the third one smokes."""

from fencepost.model import *


class Smokers(Machine):
    """The smoker with the third ingredient smokes; then the dealer offers again."""

    smokers = Size(3)
    symmetric = ("smokers",)

    missing = Id(smokers, nobody=True)  # the smoker with what is not on the table
    smoking = Each(smokers, Bool())

    @initial
    def begin(s) -> None:
        s.missing = anything(*range(s.smokers))

    @action(i=smokers)
    def smoke(s, i: int) -> None:
        s.require(s.missing == i)
        s.smoking[i], s.missing = True, -1

    @action(i=smokers, offered=smokers)
    def stop(s, i: int, offered: int) -> None:
        s.require(s.smoking[i], s.missing == -1)
        s.smoking[i], s.missing = False, offered

    one_smokes = invariant("At most one smokes.")(lambda s: s.smoking.count(True) <= 1)
    smoke_again = infinitely_often("Somebody smokes again and again.", fair=("smoke", together("stop")))(
        lambda s: s.smoking.any(True)
    )
