"""The whole machine: its switches, and its properties."""

from typing import ClassVar

from fencepost.model.kernel import (
    Truth,
    all_of,
    always_recoverable,
    any_of,
    invariant,
    may_end,
    reachable,
    step,
)
from fencepost.model.publish.recovery import Recovery
from fencepost.model.publish.writing import BOTH


class Publish(Recovery):
    """Writes to several tables that become visible all at once, over manifests, heads and sidecars."""

    safeguards: ClassVar = {
        "create-only-manifest": "a manifest id is written once: the create decides between rivals",
        "sidecar-before-heads": "the plan stands in a sidecar before the first head moves",
        "whole-plan-in-sidecar": "the sidecar holds the plan of every table",
        "epoch-check": "an executor looks for later epochs on every new parent and in heads that it meets",
        "grace-window": "the sidecar of a writer that may be alive, and is not fenced, is left alone",
        "shared-head": "whoever lost the manifest to anybody judges all its expectations again",
        "pins-re-evaluated-on-retry": "tables that were only read must still be as they were read",
        "inbound-check-on-removal": "a node is not removed while an edge points at it",
        "boundary-check-after-create": "a create is a success only if its id is above the boundary",
        "read-back-on-unknown": "a writer that was not told whether its manifest was created looks",
        "late-head": "a head whose plan can never commit is stepped over",
    }
    assumptions: ClassVar = {
        "linearizable-create": "the store never creates over a manifest, not even of two requests at once",
        "bounded-skew": "the grace window is over only when the writer is no longer at work",
        "bounded-landing": "the requests of a crashed writer land before recovery retires its sidecar",
    }

    shown_at: ClassVar = {
        "create-only-manifest": {"claims": 0, "troubles": 0},
        "shared-head": {"claims": 0, "troubles": 0},
        "pins-re-evaluated-on-retry": {"troubles": 0},
        "grace-window": {"troubles": 0},
        "linearizable-create": {"claims": 0, "troubles": 0},
    }

    # Never bad.

    @invariant
    def atomic_visibility(s) -> Truth:
        """No manifest shows a part of a plan."""
        return ~s.torn.any(True)

    @invariant
    def no_lost_write(s) -> Truth:
        """An acknowledged plan is in the chain, and what the newest manifest pins goes on from it."""
        return all_of(
            (s.told[w] != "published") | ((s.manifest[w] > 0) & s.has_moved(w)) for w in range(s.writers)
        )

    def has_moved(s, w: int) -> Truth:
        return all_of(~s.touches(w, t) | (s.pin[t] > s.base[w][t]) for t in BOTH)

    @invariant
    def no_phantom(s) -> Truth:
        """A plan whose caller was told that it is refused is invisible for ever."""
        return all_of((s.told[w] != "refused") | (s.manifest[w] == 0) for w in range(s.writers))

    @step
    def fenced(before, after: "Publish") -> Truth:
        """Once a later epoch is visible, no writer of an earlier one commits."""
        return all_of(
            (after.at[w] == before.at[w])
            | (after.manifest[w] == before.manifest[w])
            | (before.began[w] == before.epoch)
            for w in range(before.writers)
        )

    @invariant
    def no_head_ahead(s) -> Truth:
        """A head ahead of its pin can be stepped over, or its writer is at work, or its sidecar stands."""
        return all_of(s.is_explained(w, t) for w in range(s.writers) for t in BOTH)

    def is_explained(s, w: int, t: int) -> Truth:
        """Every version of the plan, as a new writer would meet it. A head of its undo it would finish."""
        held = s.sidecar[w] | s.is_at_work(w)
        return held | all_of(
            (v.plan != w) | v.undo | (s.pin[t] >= n) | s.is_dead(t, n, s.pin[t], s.epoch)
            for n, v in s.versions(t)
        )

    @invariant
    def live_writer(s) -> Truth:
        """Recovery never drops a plan of which the writer says that it is published."""
        return all_of(~s.dropped[w] | (s.told[w] != "published") for w in range(s.writers))

    @step
    def left_alone(before, after: "Publish") -> Truth:
        """Recovery takes up no plan of the present epoch whose writer is at work.

        This is what the window is for. Without the window `live_writer` says what that costs.
        """
        if not before.is_on("grace-window"):
            return Truth.constant(True)
        return ~any_of(
            before.is_at_work(w) & ~before.is_fenced(w) & (before.whose[o] != w) & (after.whose[o] == w)
            for o in range(before.openers)
            for w in range(before.writers)
        )

    @invariant
    def referential_integrity(s) -> Truth:
        """No visible edge points at a node that is gone."""
        return ~(s.is_visible("link") & s.is_visible("drop"))

    @invariant
    def cleanup_safe(s) -> Truth:
        """What the newest manifest pins, and the oldest that is retained, is there."""
        return all_of(s.is_there(t, pins[t]) for pins in (s.pin, s.kept) for t in BOTH)

    def is_there(s, t: int, pin: object) -> Truth:
        return any_of([pin == 0, *((pin == n) & v.is_there for n, v in s.versions(t))])

    @invariant
    def same_plan(s) -> Truth:
        """Whoever executes a plan, and however often, it has one head a table above the pin."""
        return all_of(
            ~any_of(
                (s.pin[t] < m) & v.holds(plan=w, undo=undo) & u.holds(plan=w, undo=undo)
                for n, v in s.versions(t)
                for m, u in s.versions(t)
                if m < n
            )
            for w in range(s.writers)
            for undo in (False, True)
            for t in BOTH
        )

    @always_recoverable
    def no_wedge(s) -> Truth:
        """However writers crash, it can come to where no head is in the way of a new one that only joins."""
        places = [s.place(t, s.pin[t], s.epoch) for t in BOTH]
        return ~any_of(place.rival | place.later for place in places) & ~s.somebody_works()

    def somebody_works(s) -> Truth:
        return any_of(s.is_at_work(w) for w in range(s.writers))

    # Sometimes good.

    @reachable
    def all_published(s) -> Truth:
        """Every writer can be told that its plan is published."""
        return s.told.all("published")

    @reachable
    def retry_succeeds(s) -> Truth:
        """A writer that lost the race for a manifest can win the next one."""
        return any_of(
            (s.told[w] == "published") & (s.manifest[w] == s.parent[w] + 1) & s.began_before(w, q)
            for w in range(s.writers)
            for q in range(s.writers)
            if q != w
        )

    def began_before(s, w: int, q: int) -> Truth:
        """Whether plan w stands on pins from before plan q, and was published after it."""
        published = (s.manifest[q] > 0) & (s.manifest[q] < s.manifest[w])
        return published & any_of(s.touches(q, t) & (s.base[q][t] == s.base[w][t]) for t in BOTH)

    @reachable
    def conflict(s) -> Truth:
        """A writer can be refused, having taken its heads back, while another one publishes."""
        return s.told.any("refused") & s.told.any("published") & (s.last > 2 + s.claims)

    @reachable
    def rolled_forward(s) -> Truth:
        """Recovery can publish the plan of a writer that crashed."""
        return any_of(
            (s.manifest[w] > 0) & (s.at[w] == "manifest-under-way") & (s.told[w] == "nothing")
            for w in range(s.writers)
        )

    @reachable
    def rolled_back(s) -> Truth:
        """Recovery can undo the plan of a writer that crashed."""
        return any_of(s.dropped[w] & (s.at[w] == "heads-under-way") & ~s.sidecar[w] for w in range(s.writers))

    @reachable
    def told_unknown(s) -> Truth:
        """A fenced writer can be told that nobody knows, of a plan that is published after all."""
        return any_of((s.told[w] == "unknown") & (s.manifest[w] > 0) for w in range(s.writers))

    @reachable
    def late_head_stepped_over(s) -> Truth:
        """A head of a fenced writer can stand below the one that is pinned."""
        return any_of(
            (v.plan == w) & (s.began[w] < s.epoch) & (s.manifest[w] == 0) & (s.pin[t] > n) & ~v.undo
            for w in range(s.writers)
            for t in BOTH
            for n, v in s.versions(t)
        )

    @reachable
    def false_success(s) -> Truth:
        """A create can succeed on an id that was deleted, and shows nobody anything."""
        return any_of((s.at[w] == "created") & (s.manifest[w] == 0) for w in range(s.writers))

    @may_end
    def done(s) -> Truth:
        """Nobody works; what recovery has to look after needs an opener only, and there is always one."""
        return ~s.somebody_works() & ~s.sidecar.any(True)
