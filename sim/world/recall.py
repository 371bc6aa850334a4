"""What processes did is remembered, so that they are run again only when they are told something new.

Theory. Exploration repeats the beginnings of runs again and again, and in most of them a process is told
what it was told before. Deterministic code that was told the same asks for the same next. So what a process
asked for is kept in a tree: from a node one edge leads on for every answer it was ever given there. A run
follows the edges, and the code itself rests. When an answer has no edge yet, the code is *caught up*: it is
run from its beginning with the answers of the path, without a step of the world, and then told the new one.

Starting and crashing are edges too, because what outlives a crash (a variable around the function) is a
function of them. A crash that was met for the first time is done to the real code, so that code that does
not let itself be crashed is still found out.

Only for programs that have promised to share nothing (`World.share_nothing`): a process that looks at a
variable which another one changes does not do the same when it is told the same. Catching up compares what
the code asks for with what it asked for before, and raises `Diverged` where they differ; it cannot notice
everything, so the promise is the program's to keep.
"""

from typing import Any

from fencepost.impl.store.errors import StoreError
from fencepost.sim.world.operations import same

NODES_MAX = 200_000
"""Nodes kept: bounds the memory, about 3 kB each with the bodies of requests."""

START = object()
CRASH = object()


class Diverged(Exception):
    """The program did something else although every choice was the same: it is not deterministic."""


class Node:
    """Where a process waits: for what, and what it did next, by what it was told."""

    __slots__ = ("after", "clean", "marks", "op")

    def __init__(self, op: Any, clean: bool = True) -> None:
        self.op = op
        """None before a start, and after a crash."""
        self.clean = clean
        """Of a crash: whether the code let itself be unwound."""
        self.marks: tuple[tuple[str, bool], ...] = ()
        """Where operations began and ended on the way here, see `costs`."""
        self.after: dict[Any, Node] = {}


class Recall:
    """The trees of one exploration."""

    def __init__(self) -> None:
        self._roots: dict[Any, Node] = {}
        self._count = 0

    def root(self, setup: tuple[Any, ...], process: str) -> Node:
        """Where a process begins, by what the program picked when it set the world up."""
        if self._count > NODES_MAX:
            self._roots.clear()
            self._count = 0
        return self._roots.setdefault((setup, process), Node(None))

    def grow(self, node: Node, told: Any, after: Node) -> Node:
        self._count += 1
        node.after[told] = after
        return after


def key_of(answer: Any) -> Any:
    """The edge that an answer stands for; None where it cannot be compared with others."""
    if type(answer) is list:
        answer = tuple(answer)
        if any(isinstance(one, StoreError) for one in answer):
            return None
    if isinstance(answer, StoreError):
        return None
    try:
        hash(answer)
    except TypeError:
        return None
    return (answer,)


def check_same(process: str, before: Any, now: Any) -> None:
    """Raise unless the process asks for what it asked for before, having been told the same."""
    if same(before, now):
        return
    raise Diverged(
        f"process {process!r} asked for {_said(before)} in one run and for {_said(now)} in another, having "
        "been told the same. It shares a variable with another process, or something outside the world "
        "decides: a clock, randomness, an identifier, the order of a set; a program whose processes share "
        "variables must not call share_nothing"
    )


def _said(op: Any) -> str:
    return f"{op.kind} {op.subject}".strip()
