"""The simulated store: what a request goes through between being sent and being answered.

    send ── client's cap ── store's cap ──┬── way there ── LANDS ── way back ──┬── answer
            (queue)         (queue)       │   half of the  applied to the      │   places are
                                          │   latency, and  bucket, at one     │   given back
                                          │   bytes sent    moment             │
                                          └──────── time-out: unknown ─────────┘

A request is applied when it lands, by the same `Bucket` that every audit uses; the order of landing is the
order of effects. The latency is drawn once for the whole way, half passes before landing. Rates are
checked at landing, and a refusal takes as long as an answer. A request whose answer would come after the
client's time-out is answered `unknown` then, and lands all the same.

Left out: the store's own replication, connections being opened, and a client's processor (unless the
scenario gives its requests a price in compute).
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import simpy
from simpy.events import NORMAL

from fencepost.impl.store.bucket import Bucket
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.events import Event, TraceFields, arguments, landing, results
from fencepost.impl.store.requests import Outcome, Reply, Request
from fencepost.sim.des.engine import START_NS, Engine
from fencepost.sim.des.faults import Faults, fate
from fencepost.sim.des.latency import Constant, Profile
from fencepost.sim.des.paths import Contended, Nominal

SECOND_NS = 1_000_000_000


class Gate:
    """Lets `places` requests through at once, queues the others in order of arrival, and measures its use."""

    __slots__ = (
        "_any_ns",
        "_busy_ns",
        "_changed_ns",
        "_engine",
        "free",
        "places",
        "queue",
        "queued_max",
        "used_max",
        "waited",
    )

    def __init__(self, engine: Any, places: int) -> None:
        self._engine = engine
        self.places = places
        self.free = places
        self.queue: deque[Any] = deque()
        self.queued_max = 0
        self.waited = 0
        self.used_max = 0
        self._busy_ns = 0
        self._any_ns = 0
        self._changed_ns = 0

    def enter(self, flight: Any) -> bool:
        """Return true if `flight` may proceed now; otherwise queue it for a later `leave`."""
        if self.free:
            self._mark()
            self.free -= 1
            self.used_max = max(self.used_max, self.places - self.free)
            return True
        self.queue.append(flight)
        self.waited += 1
        if len(self.queue) > self.queued_max:
            self.queued_max = len(self.queue)
        return False

    def leave(self) -> Any:
        """Free a place; returns the queued flight that takes it, or None."""
        if self.queue:
            return self.queue.popleft()
        self._mark()
        self.free += 1
        return None

    def _mark(self) -> None:
        now = self._engine.simpy._now  # noqa: SLF001 - twice a request: the property costs as much as the sum
        if self.free < self.places:
            self._busy_ns += (self.places - self.free) * (now - self._changed_ns)
            self._any_ns += now - self._changed_ns
        self._changed_ns = now

    def use(self, now_ns: int) -> float:
        """Mean share of its places in use."""
        self._mark()
        return self._busy_ns / (self.places * now_ns) if now_ns else 0.0

    def parallelism(self) -> float:
        """Mean number of places in use while any is in use; 0 when none ever was."""
        self._mark()
        return self._busy_ns / self._any_ns if self._any_ns else 0.0


class Rate:
    """Token buckets, one for each name, that fill at `per_second` up to `burst`.

    A request that finds its bucket empty is answered 503 at once and is not queued, like S3's SlowDown."""

    __slots__ = ("_left", "burst", "per_second", "refused")

    def __init__(self, per_second: float, burst: float) -> None:
        self.per_second = per_second
        self.burst = burst
        self.refused = 0
        self._left: dict[str, tuple[float, int]] = {}

    def take(self, name: str, now_ns: int) -> bool:
        """Take a token of `name`; False when there is none."""
        left, then = self._left.get(name, (self.burst, now_ns))
        left = min(self.burst, left + (now_ns - then) * self.per_second / SECOND_NS)
        if left < 1.0:
            self._left[name] = (left, now_ns)
            self.refused += 1
            return False
        self._left[name] = (left - 1.0, now_ns)
        return True


RATES_BURST_S = 1.0
"""A prefix may save up one second's worth of requests."""


@dataclass(frozen=True, slots=True)
class StoreModel:
    """The settings of the store. None: no such limit."""

    latency: Profile = field(default_factory=lambda: Profile(Constant(20_000_000)))
    in_flight: int | None = None
    writes_per_prefix: float | None = None
    reads_per_prefix: float | None = None
    prefix_segments: int = 1
    """Parts of a key, between slashes, that make the prefix that shares a rate."""
    writes_per_key: float | None = None


class Flight(simpy.Event):
    """A request under way: an event that is scheduled again for its next stage."""

    env: Any = None  # no client waits for it
    callbacks: Any
    _ok = True
    _value = None
    reply: Any = None
    group: Any = None
    """The parallel step it is part of, and its `slot` there."""
    slot = 0
    fate = ""
    rest_ns = 0
    """From landing to the answer."""
    op = -1
    sender: tuple[str, int] = ("", 0)

    def __init__(self, client: Any, actor: Any, request: Any) -> None:
        # Attributes that most requests never set stay with the class: an instance is made for each request.
        self.client = client
        self.actor = actor
        self.request = request


class Server:
    """One store, shared by all clients of a run."""

    def __init__(
        self,
        engine: Engine,
        model: StoreModel,
        *,
        faults: Faults | None = None,
        bucket: Bucket | None = None,
        sink: Callable[[Event], object] | None = None,
        run: str = "",
        trace_fields: TraceFields | None = None,
    ) -> None:
        self.engine = engine
        self.model = model
        self.faults = faults or Faults()
        self.bucket = bucket or Bucket()
        self.gate = Gate(engine, model.in_flight) if model.in_flight is not None else None
        self.requests: Counter[str] = Counter()
        """Requests that landed, by kind, 503s left out: what a bill counts."""
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """Answers that were not `done`, by kind and outcome."""
        self.faulted: Counter[str] = Counter()
        self._rates = [
            rate
            for rate in (
                self._rate(model.writes_per_prefix, RATES_BURST_S, self._prefix, reads=False),
                self._rate(model.reads_per_prefix, RATES_BURST_S, self._prefix, reads=True),
                self._rate(model.writes_per_key, 0.0, lambda request: request.subject, reads=False),
            )
            if rate is not None
        ]
        self._simpy = engine.simpy
        self._schedule = engine.simpy.schedule
        self._answer = self.bucket.answer
        self._land_acts = (self._land,)
        self._respond_acts = (self._respond,)
        self._expire_acts = (self._expire,)
        self._sink = sink
        self._run = run
        self._trace_fields = trace_fields
        self._seq = 0
        self._op = 0

    @staticmethod
    def _rate(
        per_second: float | None, seconds: float, name: Callable[[Any], str], *, reads: bool
    ) -> tuple[Rate, Callable[[Any], str], bool] | None:
        if per_second is None:
            return None
        return Rate(per_second, max(1.0, per_second * seconds)), name, reads

    def _prefix(self, request: Any) -> str:
        return "/".join(request.subject.split("/", self.model.prefix_segments)[: self.model.prefix_segments])

    # The stages.

    def launch(self, flight: Flight) -> None:
        """A client sends it: it goes on, or queues for a place."""
        if self._sink is not None:
            self._trace_request(flight)
        gate = flight.client.gate
        if (gate is None or gate.enter(flight)) and (self.gate is None or self.gate.enter(flight)):
            self._start(flight)

    def _arrive(self, flight: Flight) -> None:
        if self.gate is None or self.gate.enter(flight):
            self._start(flight)

    def _start(self, flight: Flight) -> None:
        """It has its places: on the way."""
        request = flight.request
        client = flight.client
        latency = client.draws[request.kind]()
        there = latency >> 1
        flight.rest_ns = latency - there
        byte_ns = client.byte_ns
        if byte_ns is not None and not request.reads:
            there += int(_size(request) * byte_ns(request.kind))
        if client.dice is not None:
            flight.fate = fate(self.faults, request, client.dice)
            if flight.fate:
                self._doom(flight, there)
                return
        if client.timeout_ns is not None and latency > client.timeout_ns:
            self._expire_later(flight)
        flight.callbacks = self._land_acts
        self._schedule(flight, NORMAL, there)

    def _doom(self, flight: Flight, there: int) -> None:
        """A fault happens to it."""
        name = flight.fate
        self.faulted[name] += 1
        if name in ("reply_lost", "request_lost", "late"):
            self._expire_later(flight)
            if name == "request_lost":
                return
            if name == "late":
                there = flight.client.wait_ns + int(
                    flight.client.dice.expovariate(1.0) * self.faults.late_by_ns
                )
        flight.callbacks = self._land_acts
        self._schedule(flight, NORMAL, there)

    def _expire_later(self, flight: Flight) -> None:
        expiry = Flight(flight.client, flight.actor, flight)
        expiry.callbacks = self._expire_acts
        self._schedule(expiry, NORMAL, flight.client.wait_ns)

    def _land(self, flight: Any) -> None:
        """The store applies it, at this moment."""
        request = flight.request
        now_ns: Any = self._simpy._now  # noqa: SLF001 - once a request: the property costs as much as the sum
        reply: Any = self._refusal(flight, now_ns) if self._rates or flight.fate else None
        if reply is None:
            if type(request) is Nominal:
                reply = DONE
            elif type(request) is Contended:
                reply = request.land()
            else:
                try:
                    reply = self._answer(request, START_NS + now_ns)
                except StoreError as error:
                    reply = error
            self.requests[request.kind] += 1
        flight.reply = reply
        if self._sink is not None:
            self._trace(flight, "landed", reply)
        if flight.fate in ("reply_lost", "late"):
            return
        rest = flight.rest_ns
        byte_ns = flight.client.byte_ns
        if byte_ns is not None and request.reads:
            rest += int(_received(request, reply) * byte_ns(request.kind))
        flight.callbacks = self._respond_acts
        self._schedule(flight, NORMAL, rest)

    def _refusal(self, flight: Flight, now_ns: int) -> Reply | None:
        """Why it is not applied."""
        request: Request[Reply] = flight.request
        if flight.fate == "conflict":
            return request.ends(Outcome.CONFLICT, "drawn")
        if flight.fate == "throttled":
            return request.ends(Outcome.THROTTLED, "drawn")
        for rate, name, reads in self._rates:
            if request.reads is reads and not rate.take(name(request), now_ns):
                return request.ends(Outcome.THROTTLED, "SlowDown")
        return None

    def _respond(self, flight: Any) -> None:
        """The answer reaches the client. If it gave up, it gave the places back as well."""
        if flight.actor is not None:
            if self.gate is not None or flight.client.gate is not None:
                self._leave(flight)
            self._deliver(flight, flight.reply)

    def _expire(self, expiry: Any) -> None:
        """The client gives up."""
        flight = expiry.request
        if flight.actor is None:
            return
        flight.client.timeouts += 1
        self._leave(flight)
        self._deliver(flight, flight.request.ends(Outcome.UNKNOWN, "no answer in time"))

    def _leave(self, flight: Flight) -> None:
        """Give its places to the next in the queues."""
        if self.gate is not None:
            heir = self.gate.leave()
            if heir is not None:
                self._start(heir)
        gate = flight.client.gate
        if gate is not None:
            heir = gate.leave()
            if heir is not None:
                self._arrive(heir)

    def _deliver(self, flight: Flight, reply: Any) -> None:
        actor, flight.actor = flight.actor, None
        if not isinstance(reply, Reply):
            self.outcomes[flight.request.kind, "refused"] += 1
        elif reply.outcome is not Outcome.DONE:
            self.outcomes[flight.request.kind, reply.outcome.value] += 1
        if self._sink is not None:
            self._trace(flight, "response", reply)
        flight.client.answered(flight, actor, reply)

    # Traces.

    def _trace_request(self, flight: Flight) -> None:
        flight.op = self._op
        flight.sender = (flight.actor.name, flight.actor.incarnation)
        self._op += 1
        self._emit(flight, "request", arguments(flight.request, self._trace_fields))

    def _trace(self, flight: Flight, phase: str, reply: Any) -> None:
        request = flight.request
        if isinstance(reply, StoreError):
            columns = {"kind": request.kind, "key": request.subject, "outcome": "refused", "note": str(reply)}
        else:
            columns = {**results(request, reply, self._trace_fields), "note": reply.detail}
        if phase == "landed":
            columns.update(landing(request, self._trace_fields))
        self._emit(flight, phase, columns)

    def _emit(self, flight: Flight, phase: str, columns: dict[str, Any]) -> None:
        assert self._sink is not None
        self._sink(
            Event(
                run=self._run,
                seq=self._seq,
                t_ns=START_NS + self.engine.now_ns,
                process=flight.sender[0],
                incarnation=flight.sender[1],
                op=flight.op,
                phase=phase,
                **columns,
            )
        )
        self._seq += 1


DONE = Reply(Outcome.DONE)


def _size(request: Any) -> int:
    body = getattr(request, "body", None)
    return len(body) if body is not None else getattr(request, "size", 0)


def _received(request: Any, reply: Any) -> int:
    body = getattr(reply, "body", None)
    return len(body) if body is not None else getattr(request, "size", 0)
