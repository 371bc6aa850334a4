"""Runs of real code against the model: a verdict a run, and the first event that the model does not allow.

    automaton = Automaton(refinement)
    verdict = follow(automaton, events)       # a whole run
    print(verdict)

    follower = Follower(automaton)            # a run while it goes on
    wrong = follower.see(looks, "ann", 0)     # None, or the verdict

Where a run has events of landings, those are read, exactly as they happened. Where it has not, requests
and responses are (see `automaton`): a request lands between the two; one whose outcome nobody learnt lands
at some time after it was issued, or never. A response that says that nothing was done is read like any
other: as a landing with that outcome. A request that the store refused for good was never there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fencepost.impl.store.events import Event
from fencepost.properties.refinement.automaton import DEAD, NOTHING, OUTSIDE, START, Automaton, Move
from fencepost.properties.refinement.explain import Explanation, explain
from fencepost.properties.refinement.observation import Observation
from fencepost.properties.refinement.reader import Lens, Looks, Reader

UNTOLD = frozenset({"", "unknown"})
"""Outcomes of a response that say nothing."""
NEVER_THERE = "refused"


@dataclass(frozen=True)
class Verdict:
    """What became of one run."""

    verdict: str
    """`holds`, `violated`, or `undecided` where the model has no room for what was seen."""
    letters: int
    """How many events meant something."""
    at: int = -1
    """The place, among the events given, of the one at which it was decided."""
    event: Event | None = None
    reason: str = ""
    """One sentence."""
    explanation: Explanation | None = field(default=None, compare=False)

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.reason}" if self.reason else self.verdict]
        return "\n".join(lines + (self.explanation.lines() if self.explanation else []))


class Follower:
    """One run, event by event."""

    def __init__(self, automaton: Automaton, lens: Lens | None = None) -> None:
        self.automaton = automaton
        self.reader = Reader(lens or Lens(automaton))
        self.set = START
        self.letters: list[int] = []
        self._lens = self.reader.lens
        self._word = 0

    def state(self) -> tuple[object, ...]:
        """Everything that what comes next is judged by."""
        return (self.set, self.reader.names)

    def see(self, looks: Looks, process: str, incarnation: int) -> Verdict | None:
        """Read an event where it stands; a verdict as soon as there is one that is final."""
        letter = self.reader.letter(looks, process, incarnation)
        return None if letter == NOTHING or self.set <= OUTSIDE else self.read(letter)

    def read(self, letter: int) -> Verdict | None:
        self.letters.append(letter)
        self._word = self._lens.words.setdefault((self._word, letter), len(self._lens.words) + 1)
        before, self.set = self.set, self.automaton.step(self.set, letter)
        return None if self.set > OUTSIDE else judged(self.automaton, before, letter, self.set, self.letters)


def judged(automaton: Automaton, before: int, letter: int, after: int, letters: list[int]) -> Verdict:
    """The verdict on a run that `letter` ended."""
    read = automaton.letters[letter]
    assert read is not None
    if after == OUTSIDE:
        stranger = read.observation.stranger
        room = f"the model has no room for this {stranger}" if stranger else "the model has no room for it"
        return Verdict("undecided", len(letters), reason=f"{read.observation}: {room}")
    assert after == DEAD
    told = explain(automaton, before, letter)
    return Verdict("violated", len(letters), reason=told.sentence(), explanation=told)


def follow(automaton: Automaton, events: Iterable[Event]) -> Verdict:
    """A whole run, its events in the order of their numbers."""
    run = list(events)
    lens = Lens(automaton)
    follower = Follower(automaton, lens)
    exact = any(event.phase == "landed" for event in run)
    for place, letter in (_landed if exact else _told)(run, follower.reader):
        ended = follower.read(letter)
        if ended is not None:
            return Verdict(ended.verdict, ended.letters, place, run[place], ended.reason, ended.explanation)
    return Verdict("holds", len(follower.letters))


def _landed(run: list[Event], reader: Reader) -> Iterator[tuple[int, int]]:
    """The letters of landings and notes, each with the place of its event."""
    for place, event in enumerate(run):
        if event.phase in ("landed", "note"):
            looks = (event.phase, _kind(event), event.key, event.condition, event.outcome, event.trace_fields)
            letter = reader.letter(looks, event.process, event.incarnation)
            if letter:
                yield place, letter


def _kind(event: Event) -> str:
    return "note" if event.phase == "note" else event.kind


def _told(run: list[Event], reader: Reader) -> Iterator[tuple[int, int]]:
    """The letters of requests and of responses."""
    outcomes = {_operation(event): event.outcome for event in run if event.phase == "response"}
    lens, automaton = reader.lens, reader.lens.automaton
    open_: Counter[Observation] = Counter()
    asked: dict[tuple[str, int, int], Observation] = {}
    for place, event in enumerate(run):
        if event.phase == "note":
            letter = reader.letter(
                ("note", "note", event.key, "", "", event.trace_fields), event.process, event.incarnation
            )
            if letter:
                yield place, letter
        elif event.phase == "request" and outcomes.get(_operation(event)) != NEVER_THERE:
            outcome = outcomes.get(_operation(event), "")
            looks = (
                "landed",
                event.kind,
                event.key,
                event.condition,
                "done" if outcome in UNTOLD else outcome,
                event.trace_fields,
            )
            observation = reader.observation(looks, event.process, event.incarnation)
            if observation is None or lens.silent(observation):
                continue
            open_[observation] += 1
            if outcome not in UNTOLD:
                asked[_operation(event)] = observation
            yield place, automaton.letter(observation, Move.ASKED)
        elif event.phase == "response" and _operation(event) in asked:
            answered = asked.pop(_operation(event))
            open_[answered] -= 1
            yield place, automaton.letter(answered, Move.ANSWERED, open_[answered])


def _operation(event: Event) -> tuple[str, int, int]:
    """What ties a response to its request: processes number theirs by themselves."""
    return (event.process, event.incarnation, event.op)
