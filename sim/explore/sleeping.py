"""Sleep sets: what need not be tried, and what is tried next.

Theory. Two branches of a node begin with steps of two actors, a then b or b then a. Where the two do not
conflict, both ways lead to the same, and the branch that is explored second can do without: there, a *sleeps*
from the start. It sleeps on through all steps that do not conflict with it, since it could be swapped back
before each of them, and wakes at the first that does. Sleepers are (actor, alternative) with the footprint
they had, because each fault of a step is a branch of its own.

A run in which all who may step are asleep could only repeat another, and is given up. So a node must begin
with somebody who is wide awake: were one alternative of the first actor asleep, a run that takes it later
would only be found by a race with that very alternative. Where nobody is wide awake, everybody is tried.
"""

from collections.abc import Iterator

from fencepost.sim.explore.memory import Memory
from fencepost.sim.explore.merging import Merging
from fencepost.sim.explore.races import Node
from fencepost.sim.world import CLOCK_ACTOR, World


class Sleeping(Merging):
    """A path, the states explored so far, and at every node what is left to try."""

    _sleep: bool
    _memory: Memory
    base: int

    def _node(self, world: World, enabled: list[int]) -> Node:
        alternatives = {actor: world.alternatives(actor) for actor in enabled}
        if not self.stack:
            return Node(alternatives, {}, self._memory.start(world), world.monitor.judgement())
        parent = self.stack[-1]
        actor, r, w = parent.actor, parent.r, parent.w
        sleep = {
            choice: mark
            for asleep in (parent.sleep, parent.done)
            for choice, mark in asleep.items()
            if self._sleep and choice[0] != actor and not (w & mark[0] or r & mark[1])
        }
        return Node(
            alternatives, sleep, self._memory.remember(world, parent.memories), world.monitor.judgement()
        )

    def _choose_first(self, node: Node) -> bool:
        """Pick who steps first from here: whoever stepped last, if it may and is wide awake."""
        last = self.stack[-1].actor if self.stack else -1
        asleep = {choice[0] for choice in node.sleep if choice[1] in node.alternatives.get(choice[0], ())}
        for actor in [last, *node.alternatives]:
            # The clock may never be asked to move as it could here, so it is nobody to rely on.
            if actor in node.alternatives and actor not in asleep and actor != CLOCK_ACTOR:
                node.backtrack.add(actor)
                return self._enter(node, actor)
        node.backtrack.update(node.alternatives)
        return any(self._enter(node, actor) for actor in node.alternatives)

    def _enter(self, node: Node, actor: int) -> bool:
        """Make the first alternative of `actor` that does not sleep the step of this node."""
        node.tried.add(actor)
        node.todo = [a for a in node.alternatives[actor] if (actor, a) not in node.sleep]
        if not node.todo:
            return False
        node.actor = actor
        node.alternative = node.todo.pop(0)
        return True

    def _next(self) -> bool:
        """Set the deepest node that has something left to its next step. False when none has."""
        while len(self.stack) > self.base:
            node = self.stack[-1]
            node.done[node.actor, node.alternative] = (node.r, node.w)
            if self._next_at(node):
                return True
            self._store(node)
            self.stack.pop()
        return False

    def _next_at(self, node: Node) -> bool:
        if not node.w:
            # The request changed nothing, so losing it is losing the reply, and asking twice is asking once.
            useless = {"reply_lost": "request_lost", "ok": "duplicated"}.get(node.alternative)
            if useless in node.todo:
                node.todo.remove(useless)
                # It sleeps as long as what it equals.
                node.done[node.actor, useless] = (node.r, node.w)
        if node.todo:
            node.alternative = node.todo.pop(0)
            return True
        node.op = None
        return any(self._enter(node, actor) for actor in self._left(node))

    def _left(self, node: Node) -> Iterator[int]:
        yield from sorted(node.backtrack - node.tried)
