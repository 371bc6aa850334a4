"""The tools of every feature: stores that record their requests, rivals, keys, notes, and a clock.

A feature is a function of a `Bench`. It returns when all was well and raises one of the three endings
(`Broken`, `NotOffered`, `Inconclusive`) when it was not; what deviates without danger is a `note`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from fencepost.impl.environment import Environment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError, Unsupported
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers.retrying import Retrying
from fencepost.impl.store.requests import ANYTHING, NOT_NOW, Outcome, Reply, Request
from fencepost.sim.probe.clients import Clients, Opener, ProcessClients, Sent, ThreadClients
from fencepost.sim.probe.history import History, HistoryStep, Recorded, body_of, token_of
from fencepost.sim.probe.plan import Plan
from fencepost.sim.probe.scratch import ScratchPrefix, batches
from fencepost.sim.probe.verdict import Broken, Inconclusive, NotOffered, bound_of

RIVALS_MIN = 2
BAD_ROUNDS_MAX = 10
"""The case is clear by then."""
ROUNDS_MIN = 10
"""Rounds that are done whatever the time, if the plan has so many: fewer decide nothing."""
ROUNDS_WANTED = 40
"""Rivals are added as long as this many rounds fit into a race's time: on a store that makes losers wait for
seconds, many rounds of few rivals tell more than one round of many."""


class Bench:
    """One probe's tools; `begin` prepares them for the next feature."""

    def __init__(self, store: Store, env: Environment, plan: Plan, opener: Opener | None) -> None:
        self.env = env
        self.plan = plan
        self.scratch = ScratchPrefix(store, env)
        self.history = History(self.scratch.prefix)
        self.raw = store
        self.store = self._view(store, "me")
        self.notes: list[str] = []
        self.rounds_done = 0
        self.rounds_bad = 0
        self.counts: Counter[str] = Counter()
        self.kept: dict[str, Any] = {}
        """Values that one feature prepared for another."""
        self.applies = True
        self._name = ""
        self._seconds = 0.0
        self._deadline_ns = 0
        self._rivals = self.rivals_max = RIVALS_MIN
        self._rounds_to_grow = self._quick = 1
        self._first_bad: tuple[str, tuple[HistoryStep, ...]] | None = None
        self._opener = opener
        self._elsewhere: Store | None = None
        self._threads: ThreadClients | None = None
        self._processes: ProcessClients | None = None

    def _view(self, store: Store, worker: str) -> Store:
        recorded = Recorded(store, worker, self.history, self.scratch.before, self.scratch.after)
        return Retrying(recorded, pause_s=0.02, pause_max_s=1.0)

    def begin(self, name: str, seconds: float) -> None:
        """The next feature, and how long it may take."""
        self._name = name
        self.applies = True
        self.notes = []
        self.rounds_done = self.rounds_bad = 0
        self.counts = Counter()
        self._first_bad = None
        self._seconds = seconds
        started_ns = self.env.monotonic_ns()
        self._deadline_ns = started_ns + round(seconds * 1e9)
        self._rivals = self.rivals_max = RIVALS_MIN
        self._rounds_to_grow = self._quick = 1
        self.history.begin()

    # Stores and rivals.

    @property
    def other(self) -> Store:
        """The same place opened once more: other connections, nothing remembered. Else the same store."""
        if self._elsewhere is None:
            store = self.raw if self._opener is None else self._opener()
            self._elsewhere = self._view(store, "other")
        return self._elsewhere

    @property
    def readers(self) -> tuple[tuple[Store, str], ...]:
        """The clients that read after a write, each with a name."""
        return (self.store, "the writer"), (self.other, "another reader")

    def quiet(self) -> Store:
        """For bulk work that no history needs."""
        return Retrying(_Tracked(self.raw, self.scratch))

    @property
    def threads(self) -> Clients:
        if self._threads is None:
            self._threads = ThreadClients(self.raw, self.plan.threads)
        return self._threads

    @property
    def processes(self) -> Clients:
        if self._opener is None:
            self.not_applicable("no other process can open this store; the same race ran on threads")
        if self._processes is None:
            try:
                self._processes = ProcessClients(self._opener, self.plan.processes)
            except OSError as error:
                raise Inconclusive(f"no processes could be started here ({error})") from error
        return self._processes

    def tidy(self) -> None:
        """Between features: a bucket full of what others left behind slows every listing."""
        self.scratch.tidy(self.kept["paged"][1] if "paged" in self.kept else ())

    def close(self) -> None:
        """End the rivals. The caller removes the objects."""
        for clients in (self._threads, self._processes):
            if clients is not None:
                clients.close()
        self._threads = self._processes = None
        if self._elsewhere is not None and self._opener is not None:
            self._elsewhere.close()
        self._elsewhere = None

    def together(self, clients: Clients, requests: Sequence[Request[Any]]) -> list[Sent]:
        """One request a member, released together, written down; a refusal of the store is raised."""
        for request in requests:
            self.scratch.before(request)
        try:
            every = clients.together(requests)
        except Inconclusive:
            self._processes = None if clients is self._processes else self._processes
            raise
        for sent in every:
            self.history.add(sent.worker, sent.request, sent.reply, sent.started_ns, sent.ended_ns)
        for sent in every:
            if isinstance(sent.reply, StoreError):
                raise sent.reply
            self.scratch.after(sent.request, sent.reply)
        return every

    def in_bulk(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """All requests, a portion in parallel at a time; each must be done."""
        store = self.quiet()
        replies: list[Any] = []
        for batch in batches(requests):
            replies += store.send_all(batch)
        lost = next((reply for reply in replies if not reply.done), None)
        if lost is not None:
            raise Inconclusive(f"preparing: {lost.outcome.value} {lost.detail}".rstrip())
        return replies

    # Steps of a feature.

    def key(self, label: str = "") -> str:
        """Return a new key, named after the feature."""
        return self.scratch.key(f"{self._name}/{label or 'k'}")

    def note(self, text: str) -> None:
        """Worth knowing, and no danger. Recorded once."""
        if text not in self.notes:
            self.notes.append(text)

    def count(self, what: str, times: int = 1) -> None:
        """Something to mention in the end, with how often it happened."""
        self.counts[what] += times

    def not_applicable(self, why: str) -> NoReturn:
        """This feature makes no sense on this store: its row decides nothing."""
        self.applies = False
        raise NotOffered(f"does not apply: {why}")

    def case(self) -> None:
        """Begin a new history, for a case that does not depend on earlier ones."""
        self.history.begin()

    def put(self, key: str, token: str, when: ask.Condition = ANYTHING, size: int = 0) -> str:
        """A put that has to succeed; answers the ETag."""
        reply = expect(self.store.put(key, body_of(token, size), when=when), Outcome.DONE)
        if not reply.etag:
            raise NotOffered("the store gives no ETag for what it wrote")
        return str(reply.etag)

    def delete(self, key: str) -> None:
        expect(self.store.delete(key, when=ANYTHING), Outcome.DONE)

    def standing(self, key: str, store: Store | None = None) -> str | None:
        """Return the token of the object at `key`, or None."""
        reply = expect((store or self.store).get(key), Outcome.DONE, Outcome.MISSING)
        return token_of(reply.body) if reply.done else None

    def must_stand(self, key: str, token: str | None, after: str) -> None:
        """Raise unless the object at `key` is this one."""
        found = self.standing(key)
        if found != token:
            raise Broken(f"after {after} the object is {_named(found)}, not {_named(token)}")

    # Time and rounds.

    def out_of_time(self) -> bool:
        return self.env.monotonic_ns() >= self._deadline_ns

    def rounds(self, most: int | None = None, *, shown: int = 1) -> Iterator[int]:
        """Numbers of rounds until `most`, the time, or `BAD_ROUNDS_MAX` is reached.

        The first `ROUNDS_MIN` are done whatever the time. The history holds the last `shown` rounds."""
        most = self.plan.rounds if most is None else most
        starts: deque[int] = deque(maxlen=shown)
        for number in range(1, most + 1):
            now_ns = self.env.monotonic_ns()
            is_late = number > ROUNDS_MIN and now_ns >= self._deadline_ns
            if is_late or self.rounds_bad >= BAD_ROUNDS_MAX:
                return
            starts.append(self.history.now_ns())
            self.history.begin(starts[0])
            yield number
            self.rounds_done = number
            self._adapt((self.env.monotonic_ns() - now_ns) / 1e9)

    def _adapt(self, seconds: float) -> None:
        """More rivals after quick rounds, fewer after a slow one; each slow one asks for more quick ones."""
        if seconds * ROUNDS_WANTED > self._seconds:
            self._rivals = max(RIVALS_MIN, self._rivals // 2)
            self._rounds_to_grow *= 4
            self._quick = 0
            return
        self._quick += 1
        if self._quick >= self._rounds_to_grow:
            self._rivals *= 2
            self._quick = 0

    def rivals(self, clients: Clients) -> Sequence[str]:
        """Return the clients that race in this round."""
        self._rivals = min(self._rivals, clients.size)
        self.rivals_max = max(self.rivals_max, self._rivals)
        return clients.names[: self._rivals]

    def judged(self, violation: str | None) -> None:
        """The round that just ended was bad when `violation` returns a text."""
        if violation is None:
            return
        self.rounds_bad += 1
        if self._first_bad is None:
            self._first_bad = (violation, self.history.steps())

    def conclude(self, most: int | None = None) -> str:
        """Raise what the rounds showed; answers how strong the evidence is when they showed nothing."""
        most = self.plan.rounds if most is None else most
        if self.rounds_bad:
            assert self._first_bad is not None, "a bad round leaves its history"
            raise Broken(f"{self.rounds_bad} of {self.rounds_done} rounds: {self._first_bad[0]}")
        assert self.rounds_done >= min(most, ROUNDS_MIN), "the first rounds are done whatever the time"
        bound = self.bound()
        assert bound is not None, "at least one round was run"
        return f"0 bad of {self.rounds_done} rounds (true rate below {100 * bound:.2g} %, 95 % sure)"

    def bound(self) -> float | None:
        """Return the bound on the rate of bad rounds that so many good ones give."""
        return bound_of(self.rounds_done) if not self.rounds_bad else None

    def evidence(self) -> tuple[HistoryStep, ...]:
        """The history of the first bad round; else of the last case."""
        return self._first_bad[1] if self._first_bad else self.history.steps()


class _Tracked(Recorded):
    """Tracks what it leaves behind, keeps no history."""

    def __init__(self, inner: Store, scratch: ScratchPrefix) -> None:
        super().__init__(inner, "", History(""), scratch.before, scratch.after)

    def send(self, request: Request[Any]) -> Any:
        return self.send_all([request])[0]

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        for request in requests:
            self._before(request)
        replies = self.inner.send_all(requests)
        for request, reply in zip(requests, replies, strict=True):
            self._after(request, reply)
        return replies


def expect(reply: Any, *outcomes: Outcome) -> Any:
    """`reply` with one of these outcomes. Others: inconclusive where the store did not tell, else broken."""
    if reply.outcome in outcomes:
        return reply
    wanted = " or ".join(outcome.value for outcome in outcomes)
    answer = f"{reply.outcome.value} {reply.detail}".rstrip()
    if reply.outcome is Outcome.UNKNOWN or reply.outcome in NOT_NOW:
        raise Inconclusive(f"expected {wanted}, got {answer}")
    raise Broken(f"expected {wanted}, got {answer}")


def refused(reply: Reply, *outcomes: Outcome, otherwise: str) -> None:
    """`reply` must be a refusal; a success is broken, and `otherwise` says what that means."""
    if reply.done:
        raise Broken(otherwise)
    expect(reply, *outcomes)


def offered(act: Callable[[], Any], what: str) -> Any:
    """`act()`, where the store may answer that it does not offer it."""
    try:
        return act()
    except Unsupported as error:
        raise NotOffered(f"{what} is not offered: {error}") from error


def _named(token: str | None) -> str:
    return "missing" if token is None else repr(token)
