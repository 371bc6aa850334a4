"""Gries' coffee can: two beans out, one bean in, until one is left."""

from fencepost.model import *


class CoffeeCan(Machine):
    """Two of one colour are replaced by a black bean, two of different colours by a white one."""

    beans = Size(20, most=1000, doc="beans at the start, at most")
    black, white = Int(0, beans), Int(0, beans)

    @initial
    def begin(s) -> None:
        s.black, s.white = anything(), anything()
        s.require(s.black + s.white >= 1, s.black + s.white <= s.beans)

    @action
    def two_black(s) -> None:
        s.require(s.black >= 2)
        s.black -= 1

    @action
    def two_white(s) -> None:
        s.require(s.white >= 2)
        s.white, s.black = s.white - 2, s.black + 1

    @action
    def one_of_each(s) -> None:
        s.require(s.white >= 1, s.black >= 1)
        s.black -= 1

    @step
    def parity(before, after: "CoffeeCan") -> Truth:
        """The number of white beans stays odd or even."""
        return before.white % 2 == after.white % 2

    one_bean = may_end(lambda s: s.black + s.white == 1)
    ends = eventually("One bean is left.", fair=(together(),))(lambda s: s.black + s.white == 1)
