"""Handoff: a server process is replaced by its successor, and no connection is refused.

A supervisor owns the listening socket, so connections wait in its backlog while no process accepts. Its
steps:

    prepare   the incumbent drains: it stops accepting, and answers the requests that it has
    seal      the incumbent persists its state, and releases the lock of the directory
    begin     the successor takes the lock and opens the state
    commit    once the successor is ready, the incumbent ends

Until the commit every failure takes the other direction: the successor is ended, and the incumbent resumes.

A message and its effect are one step: what the receiver does in between changes nothing that another process
sees. The supervisor learns of a failure by the end of a process or by a timeout, and a timeout may be
mistaken: the successor that is thought to have failed may be slow. So an abort ends the successor first
(SIGKILL, then wait), and resuming takes the lock of the directory like any start.

The supervisor may crash too. Then the incumbent resumes by itself when its control connection ends, unless
it was committed; the successor ends by itself unless it was committed. A successor may crash between being
ready and the commit, which the supervisor learns too late: so the supervisor starts a server again whenever
the last one ends.
"""

from fencepost.model import *
from fencepost.model.store import Budget

STEPS = ("idle", "prepared", "drained", "sealed", "begun", "ready")
UNDER_WAY = STEPS[1:]


class Handoff(Machine):
    """One handoff of a directory from an incumbent to a successor, under a supervisor."""

    failures = Size(2, least=0, most=6, doc="crashes, failed steps and mistaken timeouts in one run")
    updates = Size(2, most=6, doc="changes of the state that a server keeps in memory")

    safeguards = {
        "owner-lock": "a server serves only while it holds the lock of the directory",
        "seal-before-begin": "the incumbent persists its state before it releases the lock",
        "drain-before-seal": "the incumbent accepts nothing while it is sealed",
        "resume-on-abort": "a failure before the commit makes the incumbent serve again",
        "supervisor-listens": "the supervisor owns the listening socket, so it outlives every server",
        "restart-on-end": "the supervisor starts a server again when the last one has ended",
    }

    fault = Budget(failures)
    supervisor = Enum(*STEPS, "committed", "aborts", "dead", start="idle")
    incumbent = Enum("serves", "drains", "sealed", "ended")
    successor = Enum("none", "waits", "begun", "serves", "ended")
    incumbent_locks = Bool(start=True)
    successor_locks = Bool()
    stranger_locks = Bool()  # a server that an operator has started on the same directory by mistake
    state = Int(0, updates)  # of the server that serves, in its memory
    persisted = Int(0, updates)
    opened = Int(0, updates)  # what the successor has read

    # Definitions.

    def needs_lock(s) -> bool:
        return True

    def sealed_state(s) -> Number:
        return s.state

    def may_update(s) -> Truth:
        return s.incumbent == "serves"

    def after_abort(s) -> str:
        return "serves"

    def is_open(s) -> Truth:
        """Somebody holds the listening socket; children inherit it."""
        return (s.supervisor != "dead") | s.server_holds_socket()

    def server_holds_socket(s) -> Truth:
        return (s.incumbent != "ended") | (s.successor == "serves")

    def restarts(s) -> bool:
        return True

    never_needs_lock = without("owner-lock", replaces=needs_lock)(lambda s: False)
    releases_at_once = without("seal-before-begin", replaces=sealed_state)(lambda s: s.persisted)
    updates_when_drained = without("drain-before-seal", replaces=may_update)(
        lambda s: s.incumbent.is_in("serves", "drains", "sealed")
    )
    stays_sealed = without("resume-on-abort", replaces=after_abort)(lambda s: "sealed")
    only_servers_hold = without("supervisor-listens", replaces=is_open)(lambda s: s.server_holds_socket())
    never_restarts = without("restart-on-end", replaces=restarts)(lambda s: False)

    # Actions: the way forward.

    @action
    def update(s) -> None:
        """A request changes what the incumbent holds in memory: buffered events, for example."""
        s.require(s.may_update() & (s.state < s.updates))
        s.state += 1

    @action
    def persist(s) -> None:
        """At an interval, also without a handoff."""
        s.require((s.incumbent == "serves") & (s.persisted < s.state))
        s.persisted = s.state

    @action
    def prepare(s) -> None:
        s.require((s.supervisor == "idle") & (s.incumbent == "serves"))
        s.successor, s.supervisor, s.incumbent = "waits", "prepared", "drains"

    @action
    def drain(s) -> None:
        s.require((s.supervisor == "prepared") & (s.incumbent == "drains"))
        s.supervisor = "drained"

    @action
    def seal(s) -> None:
        s.require((s.supervisor == "drained") & (s.incumbent == "drains"))
        s.persisted, s.incumbent_locks, s.incumbent = s.sealed_state(), False, "sealed"
        s.supervisor = "sealed"

    @action
    def begin(s) -> None:
        s.require((s.supervisor == "sealed") & (s.successor == "waits"))
        s.supervisor, s.successor = "begun", "begun"

    @action
    def open_state(s) -> None:
        """The successor takes the lock, reads the state and is ready; it accepts from the backlog."""
        s.require(s.successor == "begun")
        if s.needs_lock():
            s.require(~s.incumbent_locks & ~s.stranger_locks)
        s.successor_locks, s.opened, s.successor = True, s.persisted, "serves"

    @action
    def learn_ready(s) -> None:
        s.require((s.supervisor == "begun") & (s.successor == "serves"))
        s.supervisor = "ready"

    @action
    def commit(s) -> None:
        s.require(s.supervisor == "ready")
        s.supervisor, s.incumbent, s.incumbent_locks = "committed", "ended", False

    @action
    def restart(s) -> None:
        """An ordinary start, which takes the lock and opens what was persisted."""
        if not s.restarts():
            s.require(False)
        s.require((s.supervisor == "committed") & (s.successor == "ended"))
        s.successor = "begun"

    # Actions: failures.

    @action
    def successor_crashes(s) -> None:
        s.require(s.successor.is_in("waits", "begun", "serves"))
        s.fault.spend()
        s.successor, s.successor_locks = "ended", False

    @action
    def start_another(s) -> None:
        """An operator starts a second server on the directory; one that finds the lock held ends at once."""
        s.require(~s.stranger_locks)
        if s.needs_lock():
            s.require(~s.incumbent_locks & ~s.successor_locks)
        s.fault.spend()
        s.stranger_locks = True

    @action
    def stop_another(s) -> None:
        s.require(s.stranger_locks)
        s.stranger_locks = False

    @action
    def seal_fails(s) -> None:
        s.require((s.supervisor == "drained") & (s.incumbent == "drains"))
        s.fault.spend()
        s.supervisor = "aborts"

    @action
    def supervisor_crashes(s) -> None:
        """The sockets stay open in its children, and so does the backlog."""
        s.require(~s.supervisor.is_in("committed", "dead"))
        s.fault.spend()
        s.supervisor = "dead"

    @action
    def time_out(s) -> None:
        """Mistaken or not: the supervisor cannot distinguish a slow process from one that hangs."""
        s.require(s.supervisor.is_in(*UNDER_WAY))
        s.require(~s.successor.is_in("ended"))
        s.fault.spend()
        s.supervisor = "aborts"

    @action
    def notice_end(s) -> None:
        s.require(s.supervisor.is_in(*UNDER_WAY))
        s.require(s.successor == "ended")
        s.supervisor = "aborts"

    @action
    def end_successor(s) -> None:
        """By the supervisor, or by itself when its control connection has ended without a commit."""
        s.require(s.supervisor.is_in("aborts", "dead") & s.successor.is_in("waits", "begun", "serves"))
        s.successor, s.successor_locks = "ended", False

    @action
    def resume(s) -> None:
        s.require(s.supervisor.is_in("aborts", "dead") & s.incumbent.is_in("drains", "sealed"))
        s.require(s.successor.is_in("none", "ended"))
        if s.needs_lock():
            s.require(~s.stranger_locks)
        s.incumbent, s.incumbent_locks = s.after_abort(), True
        s.supervisor = pick(s.supervisor == "aborts", "idle", "dead")
        s.opened = 0

    @action
    def clean_up(s) -> None:
        """After an abort the next handoff begins from nothing."""
        s.require((s.supervisor == "idle") & (s.successor == "ended"))
        s.successor = "none"

    # Properties.

    @invariant
    def one_owner(s) -> Truth:
        """Never do two processes hold the directory."""
        return count_of([s.incumbent_locks, s.successor_locks, s.stranger_locks]) <= 1

    @invariant
    def one_serves(s) -> Truth:
        """Never do two processes accept requests."""
        return ~((s.incumbent == "serves") & (s.successor == "serves"))

    @invariant
    def nothing_lost(s) -> Truth:
        """The successor serves the state that the incumbent had when it ended."""
        return implies((s.supervisor == "committed") & (s.successor == "serves"), s.opened == s.state)

    @invariant
    def no_connection_refused(s) -> Truth:
        """The listening socket never closes: connections wait while no process accepts."""
        return s.is_open()

    @always_recoverable
    def always_served(s) -> Truth:
        """After every failure somebody serves again."""
        return any_of([s.incumbent == "serves", (s.successor == "serves") & (s.supervisor == "committed")])

    @reachable
    def handed_over(s) -> Truth:
        """The successor can serve alone."""
        return (s.incumbent == "ended") & (s.successor == "serves")

    @may_end
    def settled(s) -> Truth:
        return s.supervisor.is_in("committed", "dead", "idle")
