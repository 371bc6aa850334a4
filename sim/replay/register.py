"""One object as a register with conditional writes, and the search for an order that explains its history.

    Register(steps, left).blocked()     None, or the first step that fits in no order

A step takes effect between `begin` and `end`; both are places on an axis of time that the steps of one
domain share. The search keeps a state (the value, and which steps of each domain are done) and goes on with
any step that no other must come before. Steps that change nothing are done as soon as they fit, unless an
earlier step could no longer be repeated then: that never excludes a later choice. States are remembered, so
an order is never tried twice. Steps without an answer, and repetitions by the SDK, may change the value any
number of times while they can, and need not.
"""

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

NONE = -1
"""No value: the step changes nothing."""
GONE = -2
"""There is no object."""
ANY = -3
"""A value was written that the trace does not show."""
INITIAL = -4
"""Nothing is known of the value before the first event."""
UNSEEN = -5
"""A value that no step names."""
FAR = 1 << 62
"""A place behind all others."""
STATES, STATES_A_STEP = 20_000, 20
"""States after which a search ends: so many, and so many more for each step."""


Value = int | frozenset[int]
"""A value. A set is an unknown value of an object, which is none of these."""


class Need(enum.IntEnum):
    """The value that a step needs when it takes effect."""

    NOTHING = 0
    EQUAL = 1
    GONE = 2
    PRESENT = 3
    OTHER = 4
    """Some object, with another value than the one named."""


class Undecided(Exception):
    """The search met too many states."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request about the object."""

    row: int
    """The event that shows it: the answer, or the request if there is none."""
    domain: int
    begin: int
    end: int
    need: Need
    value: int
    """The value that `need` names."""
    post: int
    """The value that it leaves, `NONE` if it changes nothing."""
    optional: bool = False
    """It need not take effect, and may do so several times, at any time after `begin`."""
    repeats: bool = False
    """It may have taken effect several times between `begin` and `end`."""
    guard: Need = Need.NOTHING
    """The condition with which it was sent, which any effect of it needs."""
    guarded: int = NONE


@dataclass(frozen=True, slots=True)
class Blocked:
    """The first step that fits in no order, the value that it met, and the step that is known to have left or
    shown this value.
    """

    step: Step
    state: Value
    setter: Step | None


def after(need: Need, value: int, state: Value) -> Value | None:
    """The value once a need is met, which may show an unknown one; None if the need is not met."""
    if isinstance(state, frozenset):
        return _after_unknown(need, value, state)
    unknown = state in (ANY, INITIAL)
    match need:
        case Need.NOTHING:
            return state
        case Need.EQUAL:
            return value if unknown or state == value else None
        case Need.GONE:
            return GONE if unknown or state == GONE else None
        case Need.PRESENT:
            return frozenset() if unknown else state if state != GONE else None
        case Need.OTHER:
            return frozenset({value}) if unknown else state if state not in (GONE, value) else None


def _after_unknown(need: Need, value: int, state: frozenset[int]) -> Value | None:
    match need:
        case Need.EQUAL:
            return None if value in state else value
        case Need.GONE:
            return None
        case Need.OTHER:
            return state | {value}
        case _:
            return state


Progress = tuple[int, frozenset[int]]
"""Of the steps of a domain by beginning: all before a place are done, and these after it."""


class Register:
    """The steps of one object."""

    def __init__(
        self,
        steps: Sequence[Step],
        left: Mapping[int, int | Collection[int]],
        *,
        starts_empty: bool = False,
        free: Sequence[tuple[Step, tuple[int, ...]]] = (),
    ) -> None:
        """`left`: by place of a step, the values that it may leave if it takes effect unobserved. `free`:
        steps of others that may take effect at any time.
        """
        self._steps, self._left, self._starts_empty = list(steps), left, starts_empty
        self._posts = {at: self._unobserved(at) for at in left}
        self._free = [*free]
        self._due: dict[int, list[int]] = {}
        self._loose: dict[int, list[int]] = {}
        for at in sorted(range(len(self._steps)), key=lambda at: self._steps[at].begin):
            one = self._steps[at]
            (self._loose if one.optional else self._due).setdefault(one.domain, []).append(at)

    def _unobserved(self, at: int) -> tuple[int, ...]:
        found, step = self._left[at], self._steps[at]
        if isinstance(found, int):
            return (found,)
        if step.post >= 0:
            return tuple(sorted({step.post, *found}))
        return (*sorted(found), UNSEEN)

    def written(self) -> set[int]:
        """All values that some step is known to leave, or may leave if its answer does not show the value."""
        found = {step.post for step in self._steps if step.post != NONE}
        return found.union(*(posts for at, posts in self._posts.items() if self._steps[at].post < 0))

    def foreign(self) -> set[int]:
        """The values that a step shows and that no step can have left."""
        shown = {step.value for step in self._steps if step.need is Need.EQUAL}
        return shown - self.written()

    def domains(self) -> list[int]:
        """The domains, in which the order of time is known."""
        return list(self._due)

    def alone(self, domain: int) -> "Register":
        """The steps of one domain, where those of all others may change the value at any time or not."""
        mine = [at for at, step in enumerate(self._steps) if step.domain == domain]
        free = [
            (step, self._posts.get(at) or (step.post,))
            for at, step in enumerate(self._steps)
            if step.domain != domain and (step.post != NONE or at in self._posts)
        ]
        left = {place: self._left[at] for place, at in enumerate(mine) if at in self._left}
        return Register([self._steps[at] for at in mine], left, starts_empty=self._starts_empty, free=free)

    # The search.

    def blocked(self) -> Blocked | None:
        """The first step that fits in no order; raises `Undecided` when there are too many to try."""
        domains = list(self._due)
        due = [self._due[name] for name in domains]
        loose = [self._loose.get(name, []) for name in domains]
        lasting = [list(accumulate((self._steps[at].end for at in places), max)) for places in due]
        always = [at for name, places in self._loose.items() if name not in self._due for at in places]
        count = sum(map(len, due))
        limit = STATES + STATES_A_STEP * count
        start = GONE if self._starts_empty else INITIAL
        stack: list[tuple[Value, tuple[Progress, ...], int, Step | None]] = [
            (start, tuple((0, frozenset()) for _ in due), 0, None)
        ]
        seen: set[tuple[Value, tuple[Progress, ...]]] = set()
        best, blocked = -1, None
        while stack:
            state, progress, done, setter = stack.pop()
            progress, done, ready, bounds = self._absorbed(state, progress, done, due, lasting)
            if done == count:
                return None
            if (state, progress) in seen:
                continue
            seen.add((state, progress))
            if len(seen) > limit:
                raise Undecided
            if done > best:
                stuck = [
                    self._steps[at]
                    for _, at in ready
                    if after(self._steps[at].need, self._steps[at].value, state) is None
                ]
                if stuck:
                    best, blocked = done, Blocked(min(stuck, key=lambda one: one.end), state, setter)
            open_ = [*always]
            for domain, bound in enumerate(bounds):
                open_ += _opened(self._steps, loose[domain], bound)
                open_ += self._repeatable(due[domain], lasting[domain], progress[domain], bound)
            stack += self._by_chance(state, progress, done, setter, open_)
            for domain, at in sorted(ready, key=lambda one: -self._steps[one[1]].end):
                step = self._steps[at]
                now = after(step.need, step.value, state)
                if now is None:
                    continue
                gone_on = _with(progress, domain, due[domain], at)
                for value in self._results(at, now):
                    stack.append((value, gone_on, done + 1, step if value != state else setter))
        assert blocked is not None, "a search that ends without an order met a step that does not fit"
        return blocked

    def _results(self, at: int, now: Value) -> tuple[Value, ...]:
        step = self._steps[at]
        if step.post == NONE:
            return (now,)
        if step.post == ANY and at in self._posts and isinstance(self._left[at], Collection):
            return self._posts[at]
        return (step.post,)

    def _by_chance(
        self,
        state: Value,
        progress: tuple[Progress, ...],
        done: int,
        setter: Step | None,
        open_: Sequence[int],
    ) -> Iterator[tuple[Value, tuple[Progress, ...], int, Step | None]]:
        """The states after steps that need not happen, or that happen more than once."""
        reached: set[Value] = {state}
        for step, posts in (*((self._steps[at], self._posts[at]) for at in open_), *self._free):
            if after(step.guard, step.guarded, state) is None:
                continue
            for value in posts:
                if value not in reached:
                    reached.add(value)
                    yield value, progress, done, step

    def _absorbed(
        self,
        state: Value,
        progress: tuple[Progress, ...],
        done: int,
        due: Sequence[Sequence[int]],
        lasting: Sequence[Sequence[int]],
    ) -> tuple[tuple[Progress, ...], int, list[tuple[int, int]], list[int]]:
        """Do all steps that fit, change nothing, and end no time in which others may repeat.

        Also return the steps that can be next, as domain and place, and for each domain the end of the first
        step that must come before later ones.
        """
        after_all = list(progress)
        ready: list[tuple[int, int]] = []
        bounds: list[int] = []
        for domain, places in enumerate(due):
            while True:
                found, bound = _ready(self._steps, places, after_all[domain])
                windows = self._repeatable(places, lasting[domain], after_all[domain], bound)
                closing = min((self._steps[at].end for at in windows), default=FAR)
                idle = [at for at in found if self._steps[at].begin < closing and self._is_idle(at, state)]
                if not idle:
                    break
                for at in idle:
                    after_all[domain] = _done(after_all[domain], places, at)
                done += len(idle)
            ready += [(domain, at) for at in found]
            bounds.append(bound)
        return tuple(after_all), done, ready, bounds

    def _is_idle(self, at: int, state: Value) -> bool:
        step = self._steps[at]
        return step.post == NONE and after(step.need, step.value, state) == state

    def _repeatable(
        self, places: Sequence[int], lasting: Sequence[int], progress: Progress, bound: int
    ) -> Iterator[int]:
        """The steps that have begun, may repeat, and are not over. `lasting`: the last end so far."""
        low, done = progress
        last = max(done, default=low - 1)
        latest = self._steps[places[last]].begin if last >= 0 else -FAR
        for place in range(low, len(places)):
            step = self._steps[places[place]]
            if step.begin > bound:
                break
            if step.repeats and step.end > latest:
                yield places[place]
        for place in range(min(low, len(places)) - 1, -1, -1):
            if lasting[place] <= latest:
                return
            if self._steps[places[place]].repeats and self._steps[places[place]].end > latest:
                yield places[place]


def _ready(steps: Sequence[Step], places: Sequence[int], progress: Progress) -> tuple[list[int], int]:
    """The steps before which no other must come, and the first end of a step that is not done."""
    low, done = progress
    found, bound = [], FAR
    for place in range(low, len(places)):
        if place in done:
            continue
        step = steps[places[place]]
        if step.begin > bound:
            break
        found.append(places[place])
        bound = min(bound, step.end)
    return found, bound


def _opened(steps: Sequence[Step], places: Sequence[int], bound: int) -> Iterator[int]:
    for at in places:
        if steps[at].begin > bound:
            return
        yield at


def _done(progress: Progress, places: Sequence[int], at: int) -> Progress:
    low, done = progress
    place = places.index(at, low)
    done = done | {place}
    while low in done:
        done = done - {low}
        low += 1
    return low, done


def _with(
    progress: tuple[Progress, ...], domain: int, places: Sequence[int], at: int
) -> tuple[Progress, ...]:
    return (*progress[:domain], _done(progress[domain], places, at), *progress[domain + 1 :])
