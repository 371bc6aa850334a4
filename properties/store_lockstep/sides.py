"""Both sides of a step: what it names to each of them, the request to both, and the comparison.

A step may name `the ETag that stands there`. The reference knows it under its own name, and `Names` knows
what the store called that; so one step is two requests in two languages, and their answers are compared in
the reference's. Once they differ, the last look at everything is left out: its difference would only hide the
first one.
"""

import tempfile
from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from fencepost.impl.store.errors import Misuse, Unsupported
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome, Reply
from fencepost.model import store_reference as reference
from fencepost.model.store_reference import Answer, State, When
from fencepost.properties.store_lockstep.names import NEVER, Names

DEVIATIONS = frozenset(
    {
        "conditional-complete",
        "gone-uploads",
        "uploads-listing",
        "versions-listing",
        "markers",
        "deleted-groups",
        "parts",
    }
)


class Sides(RuleBasedStateMachine):
    """A store and the reference, and what the one calls what the other knows."""

    deviations: frozenset[str] = frozenset()
    part_bytes_min = 5 * 1024 * 1024
    """What the backend asks of every part but the last."""

    def __init__(self) -> None:
        super().__init__()
        unknown = self.deviations - DEVIATIONS
        assert not unknown, f"no such deviations: {sorted(unknown)}"
        self._folders: list[str] = []
        self.store = self.open()
        self.state = State(versioned=self.store.versioned(), part_bytes_min=self.part_bytes_min)
        self._names = Names()
        self._stood: dict[str, str] = {}
        """By key, the ETag that stood there before what stands there now."""
        self._agree = True

    def open(self) -> Store:
        """An empty store of the backend."""
        raise AssertionError("subclass StoreLockstep and open a store")

    def directory(self) -> str:
        """A new directory that is removed afterwards."""
        self._folders.append(tempfile.mkdtemp(prefix="fencepost-lockstep-"))
        return self._folders[-1]

    def _both(
        self,
        operation: reference.Operation,
        send: Callable[[], Any],
        check: Callable[[Answer, Any], bool],
    ) -> None:
        """Step the reference, ask the store, and compare: the outcome, and when it is done the rest."""
        before = self.state
        self.state, answer = reference.step(before, operation)
        stood = before.standing(operation[1])
        if stood is not None and stood != self.state.standing(operation[1]):
            self._stood[operation[1]] = stood
        self._agree = False
        outcome, reply = _asked(send)
        assert outcome == answer[0], f"{operation}: expected {answer}, the store answered {reply!r}"
        assert outcome != "done" or check(answer, reply), (
            f"{operation}: expected {answer}, the store answered {reply!r}"
        )
        self._agree = True

    def _etag(self, key: str, name: str) -> str:
        """What the reference calls the ETag that a step names in its own way."""
        seen = self._names.all("etag")
        named = {
            "current": self.state.standing(key),
            "before": self._stood.get(key),
            "seen 0": seen[0] if seen else None,
        }
        return named.get(name) or NEVER

    def _when(self, key: str, when: str) -> tuple[When, Any]:
        if when in ("anything", "absent"):
            return (when,), ANYTHING if when == "anything" else ABSENT
        etag = self._etag(key, when)
        return ("matches", etag), Matches(self._names.theirs("etag", etag))

    def _read_condition(self, key: str, name: str) -> tuple[str | None, str | None]:
        if not name:
            return None, None
        etag = self._etag(key, name)
        return etag, self._names.theirs("etag", etag)

    def _version(self, place: int) -> tuple[int, str]:
        known = self._names.all("version")
        if not place or not known:
            return 0, ""
        ours = known[-1 - (place - 1) % len(known)]
        return ours, self._names.theirs("version", ours)


def _asked(send: Callable[[], Reply]) -> tuple[str, Any]:
    try:
        reply = send()
    except Misuse as error:
        return "misuse", error
    except Unsupported as error:
        return "unsupported", error
    assert isinstance(reply.outcome, Outcome)
    return reply.outcome.value, reply
