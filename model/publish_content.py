"""The content of a publish commit: drafts that share a commit, branches, compaction, schemas, runs.

The machine of `model/publish.py` decides which plan commits, and never looks into one. Here a commit is one
step, because that machine shows it to be atomic. This machine has the content: the rows that a draft has read
and writes, and the state that its plan is compared with before the commit. There is a table of nodes with a
counter row and a node, and a table of edges with one edge. Its column may be declared to point at nodes.

A draft is one transaction, of one of these kinds:

    count                 reads the counter and adds one to it
    link                  adds the edge
    link-altered          adds the edge, and then adds and drops a column in the same transaction
    link-if               reads the nodes, and adds the edge because the node is there
    drop                  removes the node
    drop-if               has read the edges and found none, and removes the node
    declare               changes the schema: the edge points at a node
    undeclare             changes the schema: the edge holds a plain value
    compact               rewrites the nodes as one run; it has no snapshot

A draft, by `draft[d].at`:

         begin         join_group             commit
    new -------> open ------------> planned ----------> published
                  |                    |
                  |                    +--------------> refused
                  +-- publish_alone: published, or refused
                  +-- join_group: refused

The group of drafts that share a commit, by `phase`:

          join_group             stage              commit
    idle ------------> planning ----------> staged ---------> idle

The drafts of a group are planned one after another on the newest manifest of the main branch, in one step of
several labels (`planning`): planning sends no request. Other writers, on both branches, act while the plan is
`staged`. Each publishes one draft on the newest manifest, which is a plan and its commit in one step. A group
whose expectations fail after its heads moved undoes them: one more commit, which changes no row. Two groups
at once add nothing. Each is another writer to the other, and the winner of the manifest could as well have
been planned after the loser.

A pin is the stamp of the commit that wrote the table, and stamps have the order of all commits. A draft keeps
the pins of the snapshot that it began on. A table's rows are folded from its first run and from later ones,
which a commit may merge into its own. A lineage is the sequence of a table's versions: number 0 is that of
the foundation, 1 that of the branch, 2 that of the main branch after a merge. `head` is the newest version of
each.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from fencepost.model import *

BRANCHES = MAIN, DEV = 0, 1
TABLES = NODES, EDGES = 0, 1
OWN = {MAIN: 2, DEV: 1}
"""The lineage that a branch makes when it writes to one that belongs to the other."""
KINDS = ("count", "link", "link-altered", "link-if", "drop", "drop-if", "declare", "undeclare", "compact")
LINKS, DROPS, SCHEMA = ("link", "link-altered", "link-if"), ("drop", "drop-if"), ("declare", "undeclare")
READS = {NODES: ("count", "link-if"), EDGES: ("drop-if",)}
WRITES = {NODES: ("count", *DROPS, "compact"), EDGES: (*LINKS, *SCHEMA)}


class Rows(NamedTuple):
    """The visible content of a branch, or of a plan."""

    counter: Number
    node: Truth
    edge: Truth
    declared: Truth


def chosen(nodes: Truth, edges: Truth, one: Rows, other: Rows) -> Rows:
    """Return the rows of `one` in the tables whose condition holds, and of `other` in the rest."""
    return Rows(
        pick(nodes, one.counter, other.counter),
        pick(nodes, one.node, other.node),
        pick(edges, one.edge, other.edge),
        pick(edges, one.declared, other.declared),
    )


class PublishContent(Machine):
    """The content of commits: drafts, groups, branches, compaction, schemas and runs."""

    # Constants.

    drafts = Size(2, most=4, doc="transactions in one run")

    safeguards: ClassVar = {
        "reads-checked-within-group": "a draft that read what an earlier one of its group changed is refused",
        "reads-compared-with-snapshot": "a draft that read or touched what has changed since is refused",
        "pins-across-branches": "a draft is compared by pins, also if it began on another branch",
        "reads-re-evaluated-on-retry": "tables that a plan read are compared on every new parent",
        "writes-re-evaluated-on-retry": "tables that a plan writes are compared on every new parent",
        "schema-re-evaluated-on-retry": "a plan that removes rows is refused when the schema changed",
        "integrity-on-final-rows": "edges are checked on the rows as the transaction leaves them",
        "integrity-within-group": "edges are checked on the rows as the earlier drafts leave them",
        "outbound-check-on-addition": "an edge that is added points at a node",
        "inbound-check-on-removal": "a node is not removed while an edge points at it",
        "compaction-preserves-rows": "compaction writes the rows that are visible, and no removed one",
        "merged-runs-keep-changes": "a run that replaces later runs holds their changes too",
        "fork-on-first-write": "a branch makes a lineage of its own for a table that belongs to another",
        "fast-forward-only": "a branch is merged only if the target has no commits of its own since",
    }

    # State: the branches.

    clock = Int(0, drafts)  # the stamp of the newest commit to a table
    founded = Bool()
    dev = Enum("none", "there", "deleted")  # the second branch
    forked_at = Each(2, Int(0, drafts))  # by table, the pins of the main branch that a merge may replace
    head = Each(2, Each(3, Int(0, drafts)))  # by table and lineage
    branch = Role(
        2,
        pin=Each(2, Int(0, drafts)),  # by table
        schema=Int(0, drafts),  # the commit that changed keys, edges or columns last
        lineage=Each(2, Int(0, 2)),  # by table
        counter=Int(0, drafts),  # in the first run
        node=Bool(),  # in the first run
        later_counter=Int(0, drafts),  # in later runs; 0 for none
        later_removal=Bool(),  # in later runs
        edge=Bool(),
        declared=Bool(),
        careless=Bool(),  # for properties only: a row was linked or dropped without a check and a read
    )

    # State: the drafts.

    draft = Role(
        drafts,
        at=Enum("new", "open", "planned", "published", "refused"),
        kind=Enum(*KINDS),
        branch=Id(2),  # the branch where the draft began, then that where it was published
        seen=Each(2, Int(0, drafts)),  # by table, the pins of its snapshot
        read=Int(0, drafts),  # the counter of its snapshot
    )

    # State: the plan of the group.

    phase = Enum("idle", "planning", "staged")
    base = Each(2, Int(0, drafts))  # by table, the pins that the plan is compared with
    base_schema = Int(0, drafts)
    reads = Each(2, Bool())  # by table
    writes = Each(2, Bool())  # by table
    changes = Each(2, Bool())  # by table
    needs_schema = Bool()
    rewrites = Bool()
    plan_counter = Int(0, drafts)
    plan_node = Bool()
    plan_edge = Bool()
    plan_declared = Bool()
    plan_careless = Bool()

    # Definitions: rows.

    def rows(s, b: int) -> Rows:
        """Return the rows of a branch: later runs over the first."""
        branch = s.branch[b]
        first: Number = branch.counter
        later: Number = branch.later_counter
        counter = pick(later > 0, later, first)
        return Rows(counter, branch.node & ~branch.later_removal, branch.edge, branch.declared)

    def planned_rows(s) -> Rows:
        """Return the rows that the drafts so far leave, on which the next one is planned."""
        is_idle = s.phase == "idle"
        plan = Rows(s.plan_counter, s.plan_node, s.plan_edge, s.plan_declared)
        return chosen(is_idle, is_idle, s.rows(MAIN), plan)

    def applied(s, d: int, rows: Rows) -> Rows:
        kind = s.draft[d].kind
        return Rows(
            pick(kind == "count", s.draft[d].read + 1, rows.counter),
            rows.node & ~kind.is_in(*DROPS),
            rows.edge | kind.is_in(*LINKS),
            (rows.declared | (kind == "declare")) & (kind != "undeclare"),
        )

    def is_there(s, b: int) -> Truth:
        return (s.dev == "there") | (b == MAIN)

    # Definitions: the comparison of a draft with a branch, and the reasons to refuse it.

    def touches(s, d: int, t: int) -> Truth:
        """The draft has read the table or writes it."""
        return s.draft[d].kind.is_in(*READS[t], *WRITES[t])

    def is_compared(s, d: int, b: int) -> Truth:
        """Compaction has no snapshot: it rewrites whatever is there."""
        return s.draft[d].kind != "compact"

    @without("pins-across-branches", replaces=is_compared)
    def is_compared_at_home(s, d: int, b: int) -> Truth:
        """The draft began on this branch."""
        return (s.draft[d].kind != "compact") & (s.draft[d].branch == b)

    def is_stale(s, d: int, b: int) -> Truth:
        """A table that the draft has read or writes has another pin than in its snapshot."""
        moved = any_of(s.touches(d, t) & (s.draft[d].seen[t] != s.branch[b].pin[t]) for t in TABLES)
        return s.is_compared(d, b) & moved

    @without("reads-compared-with-snapshot", replaces=is_stale)
    def is_never_stale(s, d: int, b: int) -> bool:
        return False

    def is_stale_in_group(s, d: int) -> Truth:
        """An earlier draft of the group changed what the draft has read."""
        return any_of(s.draft[d].kind.is_in(*READS[t]) & s.changes[t] for t in TABLES)

    @without("reads-checked-within-group", replaces=is_stale_in_group)
    def is_never_stale_in_group(s, d: int) -> bool:
        return False

    def is_checked(s, d: int) -> Truth:
        """The edges of the draft are among the final rows that are checked."""
        return s.draft[d].kind.is_in(*LINKS, "declare")

    @without("integrity-on-final-rows", replaces=is_checked)
    def is_checked_by_verb(s, d: int) -> Truth:
        """The last verb of the transaction has edges."""
        return s.draft[d].kind.is_in("link", "link-if", "declare")

    def has_target(s, d: int, before: Rows, after: Rows) -> Truth:
        """The edge that the draft adds or declares points at a node."""
        return implies(s.is_checked(d) & after.declared & after.edge, after.node)

    @without("outbound-check-on-addition", replaces=has_target)
    def needs_no_target(s, d: int, before: Rows, after: Rows) -> bool:
        return True

    def is_free(s, d: int, before: Rows) -> Truth:
        """No edge points at the node that the draft removes."""
        return ~(s.draft[d].kind.is_in(*DROPS) & before.node & before.edge & before.declared)

    @without("inbound-check-on-removal", replaces=is_free)
    def is_always_free(s, d: int, before: Rows) -> bool:
        return True

    def is_valid(s, d: int, checked: Rows) -> Truth:
        exists = implies(s.draft[d].kind == "undeclare", checked.declared)
        return exists & s.has_target(d, checked, s.applied(d, checked)) & s.is_free(d, checked)

    def checked_rows(s) -> Rows:
        """Return the rows on which the edges of the next draft of the group are checked."""
        return s.planned_rows()

    @without("integrity-within-group", replaces=checked_rows)
    def published_rows(s) -> Rows:
        """Return the rows without those of earlier drafts of the group."""
        return s.rows(MAIN)

    def relies_on(s, d: int, t: int, rows: Rows) -> Truth:
        """The plan keeps the pin of what the draft read, and of what its edges were checked against."""
        kind = s.draft[d].kind
        checked = kind.is_in(*LINKS, "declare") if t == NODES else kind.is_in(*DROPS)
        return kind.is_in(*READS[t]) | (checked & s.applied(d, rows).declared)

    def is_careless(s, d: int, rows: Rows) -> Truth:
        return s.draft[d].kind.is_in("link", "link-altered", "drop") & ~rows.declared

    def reads_hold(s) -> Truth:
        """The tables that the plan relies on are pinned as in its base."""
        return all_of(implies(s.reads[t], s.branch[MAIN].pin[t] == s.base[t]) for t in TABLES)

    @without("reads-re-evaluated-on-retry", replaces=reads_hold)
    def reads_are_ignored(s) -> bool:
        return True

    def writes_hold(s) -> Truth:
        """The tables that the plan writes are pinned as in its base."""
        return all_of(implies(s.writes[t], s.branch[MAIN].pin[t] == s.base[t]) for t in TABLES)

    @without("writes-re-evaluated-on-retry", replaces=writes_hold)
    def writes_are_ignored(s) -> bool:
        return True

    def schema_holds(s) -> Truth:
        """The schema that the plan depends on is unchanged."""
        return implies(s.needs_schema, s.branch[MAIN].schema == s.base_schema)

    @without("schema-re-evaluated-on-retry", replaces=schema_holds)
    def schema_is_ignored(s) -> bool:
        return True

    def may_commit(s) -> Truth:
        """The newest manifest, as the parent, meets the expectations of the plan."""
        return s.reads_hold() & s.writes_hold() & s.schema_holds()

    def may_merge(s) -> Truth:
        """The main branch has had no commit since the fork."""
        return s.branch[MAIN].pin == s.forked_at

    @without("fast-forward-only", replaces=may_merge)
    def may_always_merge(s) -> bool:
        return True

    # Definitions: a commit.

    def commit_rows(s, b: int, new: Rows, writes: Sequence[Truth], rewrites: Truth) -> None:
        """The next manifest of branch b pins new versions of the written tables, with these rows."""
        s.clock = s.clock + 1
        rows = chosen(writes[NODES], writes[EDGES], new, s.rows(b))
        changes_schema = rows.declared != s.branch[b].declared
        s.write_runs(b, rows, writes[NODES], rewrites)
        s.branch[b].edge = rows.edge
        s.branch[b].declared = rows.declared
        s.branch[b].schema = pick(changes_schema, s.clock, s.branch[b].schema)
        for t in TABLES:
            s.move_pin(b, t, writes[t])

    def move_pin(s, b: int, t: int, moves: Truth) -> None:
        s.branch[b].lineage[t] = pick(moves, s.written_lineage(b, t), s.branch[b].lineage[t])
        for number in range(3):
            newest = moves & (s.branch[b].lineage[t] == number)
            s.head[t][number] = pick(newest, s.clock, s.head[t][number])
        s.branch[b].pin[t] = pick(moves, s.clock, s.branch[b].pin[t])

    def is_own(s, b: int, t: int) -> Truth:
        """The lineage of the table belongs to branch b."""
        return (s.branch[b].lineage[t] == 1) ^ (b == MAIN)

    def written_lineage(s, b: int, t: int) -> Number:
        """Return the lineage of the next version: a new one, where the present one belongs to the other."""
        return pick(s.is_own(b, t), s.branch[b].lineage[t], OWN[b])

    @without("fork-on-first-write", replaces=written_lineage)
    def shared_lineage(s, b: int, t: int) -> Number:
        return s.branch[b].lineage[t]

    def write_runs(s, b: int, rows: Rows, writes: Truth, rewrites: Truth) -> None:
        """A rewritten table has one run; otherwise the changes are in later ones."""
        old = s.rows(b)
        counter = pick(rows.counter != old.counter, rows.counter, s.branch[b].later_counter)
        s.branch[b].later_counter = pick(rewrites, 0, counter)
        s.branch[b].later_removal = ~rewrites & s.branch[b].node & ~rows.node
        s.branch[b].counter = pick(rewrites, rows.counter, s.branch[b].counter)
        s.branch[b].node = s.compacted_node(b, rows, rewrites)

    def compacted_node(s, b: int, rows: Rows, rewrites: Truth) -> Truth:
        """Return the node of the first run, which a compaction writes anew."""
        return pick(rewrites, rows.node, s.branch[b].node)

    @without("compaction-preserves-rows", replaces=compacted_node)
    def copied_node(s, b: int, rows: Rows, rewrites: Truth) -> Truth:
        """Copy the runs that hold rows, and forget those of removed keys."""
        return s.branch[b].node

    @without("merged-runs-keep-changes", replaces=write_runs)
    def write_last_run(s, b: int, rows: Rows, writes: Truth, rewrites: Truth) -> None:
        """The new run replaces the later ones, and holds the changes of its own commit only."""
        old = s.rows(b)
        counts = rows.counter != old.counter
        removes = old.node & ~rows.node
        PublishContent.write_runs(s, b, rows, writes, rewrites)
        s.branch[b].later_counter = pick(writes & ~counts, 0, s.branch[b].later_counter)
        s.branch[b].later_removal = s.branch[b].later_removal & (~writes | removes)

    # Actions: the foundation, and drafts.

    @action(declared=(False, True), edge=(False, True))
    def found(s, declared: bool, edge: bool) -> None:
        s.require(~s.founded)
        s.founded = True
        s.branch[MAIN].node = True
        s.branch[MAIN].declared = declared
        s.branch[MAIN].edge = edge

    @action(d=drafts, kind=KINDS, b=BRANCHES)
    def begin(s, d: int, kind: str, b: int) -> None:
        """A transaction reads its snapshot and decides on it."""
        rows = s.rows(b)
        s.require(s.founded & s.is_there(b) & (s.phase != "planning"))
        s.require(
            s.draft[d].at == "new", d == 0 or s.draft[d - 1].at != "new"
        )  # drafts are numbered as they begin
        s.require(rows.node | Truth.constant(kind not in ("link-if", *DROPS)))
        s.require(~rows.edge | Truth.constant(kind != "drop-if"))
        s.require((rows.declared == (kind == "undeclare")) | Truth.constant(kind not in SCHEMA))
        s.draft[d].at = "open"
        s.draft[d].kind = kind
        s.draft[d].branch = b
        if kind != "compact":
            s.draft[d].seen = s.branch[b].pin
        if kind == "count":
            s.draft[d].read = rows.counter

    # Actions: group commit on the main branch.

    @action(d=drafts, answer=("joined", "stale", "invalid"))
    def join_group(s, d: int, answer: str) -> None:
        """The next draft of the group is planned on the rows that the earlier ones leave."""
        s.require((s.draft[d].at == "open") & (s.phase != "staged"))
        stale = s.is_stale_in_group(d) | s.is_stale(d, MAIN)
        valid = s.is_valid(d, s.checked_rows())
        s.require({"stale": stale, "invalid": ~stale & ~valid, "joined": ~stale & valid}[answer])
        if answer == "joined":
            s.add_to_plan(d)
        else:
            s.end_draft(d, "refused")

    def add_to_plan(s, d: int) -> None:
        before = s.planned_rows()
        kind = s.draft[d].kind
        after = s.applied(d, before)
        for t in TABLES:
            s.base[t] = s.branch[MAIN].pin[t]
            s.reads[t] |= s.relies_on(d, t, before)
            s.writes[t] |= kind.is_in(*WRITES[t])
            s.changes[t] |= kind.is_in(*WRITES[t]) & (kind != "compact")
        s.base_schema = s.branch[MAIN].schema
        s.needs_schema |= kind.is_in(*DROPS, *SCHEMA, "link-altered")
        s.rewrites |= kind == "compact"
        s.plan_careless |= s.is_careless(d, before)
        s.plan_counter = after.counter
        s.plan_node = after.node
        s.plan_edge = after.edge
        s.plan_declared = after.declared
        s.phase = "planning"
        s.draft[d].at = "planned"

    @action
    def stage(s) -> None:
        """The plan and its fragments are written; from here on others may act."""
        s.require(s.phase == "planning")
        s.phase = "staged"

    @action(answer=("published", "stale-before-heads", "stale"))
    def commit(s, answer: str) -> None:
        """On the newest manifest, which may not be the one that the plan was made on."""
        s.require(s.phase == "staged")
        if answer == "published":
            s.require(s.may_commit())
            s.branch[MAIN].careless |= s.plan_careless
            rows = Rows(s.plan_counter, s.plan_node, s.plan_edge, s.plan_declared)
            s.commit_rows(MAIN, rows, [*s.writes], s.rewrites)
        else:
            s.require(~s.may_commit())
        if answer == "stale":
            s.undo_heads()
        for d in range(s.drafts):
            is_planned = s.draft[d].at == "planned"
            ended = "published" if answer == "published" else "refused"
            s.draft[d].branch = pick(is_planned, MAIN, s.draft[d].branch)
            s.draft[d].at = pick(is_planned, ended, s.draft[d].at)
        s.phase = "idle"
        s.clear_plan()

    def clear_plan(s) -> None:
        s.base = (0, 0)
        s.base_schema = 0
        s.reads = (False, False)
        s.writes = (False, False)
        s.changes = (False, False)
        s.needs_schema = False
        s.rewrites = False
        s.plan_counter = 0
        s.plan_node = False
        s.plan_edge = False
        s.plan_declared = False
        s.plan_careless = False

    def undo_heads(s) -> None:
        """The heads in lineages that others extend too are in their way: the same rows, as new versions."""
        undone = [s.writes[t] & (s.branch[MAIN].pin[t] == s.base[t]) & s.is_own(MAIN, t) for t in TABLES]
        s.clock = pick(any_of(undone), s.clock + 1, s.clock)
        for t in TABLES:
            s.move_pin(MAIN, t, undone[t])

    # Actions: other writers, on either branch.

    @action(d=drafts, b=BRANCHES, answer=("published", "stale", "invalid"))
    def publish_alone(s, d: int, b: int, answer: str) -> None:
        s.require((s.draft[d].at == "open") & (s.phase != "planning") & s.is_there(b))
        rows = s.rows(b)
        stale = s.is_stale(d, b)
        valid = s.is_valid(d, rows)
        s.require({"stale": stale, "invalid": ~stale & ~valid, "published": ~stale & valid}[answer])
        if answer == "published":
            s.branch[b].careless |= s.is_careless(d, rows)
            writes = [s.draft[d].kind.is_in(*WRITES[t]) for t in TABLES]
            s.commit_rows(b, s.applied(d, rows), writes, s.draft[d].kind == "compact")
            s.draft[d].branch = b
        s.end_draft(d, "published" if answer == "published" else "refused")

    def end_draft(s, d: int, at: str) -> None:
        s.draft[d].at = at
        s.draft[d].seen = (0, 0)
        s.draft[d].read = 0

    @action
    def create_branch(s) -> None:
        """One object, whatever the number of tables: the branch pins what the main branch pins."""
        s.require(s.founded & (s.dev == "none") & (s.phase != "planning"))
        s.dev = "there"
        s.forked_at = (*s.branch[MAIN].pin,)
        s.copy_branch(MAIN, DEV)

    @action
    def merge_branch(s) -> None:
        """The main branch takes over what the other one pins, provided that it has no commits of its own."""
        s.require((s.dev == "there") & (s.phase != "planning"))
        s.require(s.branch[MAIN].pin != s.branch[DEV].pin, s.may_merge())
        s.forked_at = (*s.branch[DEV].pin,)
        s.copy_branch(DEV, MAIN)

    def copy_branch(s, source: int, to: int) -> None:
        """Make one branch pin what the other pins."""
        old = s.branch[source]
        new = s.branch[to]
        new.schema = pick(new.declared != old.declared, old.schema, new.schema)
        new.pin = old.pin
        new.lineage = old.lineage
        new.counter = old.counter
        new.node = old.node
        new.later_counter = old.later_counter
        new.later_removal = old.later_removal
        new.edge = old.edge
        new.declared = old.declared
        new.careless = old.careless

    @action
    def delete_branch(s) -> None:
        s.require((s.dev == "there") & (s.phase != "planning"))
        s.dev = "deleted"

    # Properties: never bad.

    def publishes(s, after: "PublishContent", d: int) -> Truth:
        """The draft is published in this step."""
        return (s.draft[d].at != "published") & (after.draft[d].at == "published")

    def is_published_on(s, after: "PublishContent", b: int) -> Truth:
        return any_of(s.publishes(after, d) & (after.draft[d].branch == b) for d in range(s.drafts))

    def counted(s, on: tuple[int, ...]) -> Number:
        """Return the number of increments that were acknowledged on these branches."""
        return count_of(
            (s.draft[d].at == "published")
            & (s.draft[d].kind == "count")
            & any_of(s.draft[d].branch == b for b in on)
            for d in range(s.drafts)
        )

    @invariant(b=BRANCHES)
    def no_lost_update(s, b: int) -> Truth:
        """The counter of a branch has counted every increment that was acknowledged there."""
        return implies(s.is_there(b), s.rows(b).counter >= s.counted((b,)))

    @invariant(b=BRANCHES)
    def no_phantom(s, b: int) -> Truth:
        """The counter has counted nothing that was refused."""
        return implies(s.is_there(b), s.rows(b).counter <= s.counted(BRANCHES))

    @invariant(b=BRANCHES)
    def no_write_skew(s, b: int) -> Truth:
        """Drafts that looked before they linked or dropped leave no edge without its node."""
        return ~(s.is_there(b) & s.rows(b).edge & ~s.rows(b).node & ~s.branch[b].careless)

    @invariant(b=BRANCHES)
    def referential_integrity(s, b: int) -> Truth:
        """No visible edge whose column is declared points at a missing node."""
        return ~(s.is_there(b) & s.rows(b).declared & s.rows(b).edge & ~s.rows(b).node)

    @step
    def branch_isolation(before, after: "PublishContent") -> Truth:
        """The rows of a branch change by commits on it, and by merges into the main branch."""

        def changes(b: int) -> Truth:
            was, now = before.rows(b), after.rows(b)
            return (was.counter != now.counter) | (was.node != now.node) | (was.edge != now.edge)

        stayed = (before.dev == "there") & (after.dev == "there")
        on_main = before.is_published_on(after, MAIN) | (after.branch[MAIN].pin == after.branch[DEV].pin)
        return implies(stayed & changes(DEV), before.is_published_on(after, DEV)) & implies(
            changes(MAIN) & before.founded, on_main
        )

    @invariant(b=BRANCHES, t=TABLES, number=3)
    def no_head_of_another_branch(s, b: int, t: int, number: int) -> Truth:
        """The newest version of a lineage that belongs to a branch is the one that the branch pins."""
        own = (s.branch[b].lineage[t] == number) & s.is_own(b, t) & s.is_there(b)
        return implies(own, s.head[t][number] == s.branch[b].pin[t])

    @step(b=BRANCHES)
    def compaction_is_invisible(before, after: "PublishContent", b: int) -> Truth:
        """A commit that only rewrites runs changes no row."""
        compacts = [
            (before.publishes(after, d), after.draft[d].kind == "compact") for d in range(before.drafts)
        ]
        only = any_of(p for p, _ in compacts) & all_of(implies(p, kind) for p, kind in compacts)
        rows = zip(before.rows(b), after.rows(b), strict=True)
        return implies(only, all_of(was == now for was, now in rows))

    # Properties: sometimes good.

    @reachable
    def group_published(s) -> Truth:
        """Two drafts can share a commit."""
        return (s.clock == 1) & (s.draft.count(at="published") > 1)

    @reachable
    def published_on_retry(s) -> Truth:
        """A plan can still be good after another writer's commit."""
        return (s.phase == "staged") & (s.clock > 0) & s.may_commit()

    @reachable
    def compacted(s) -> Truth:
        """A removed row can disappear from the runs."""
        return s.founded & ~s.branch[MAIN].node

    @reachable
    def merged(s) -> Truth:
        """The main branch can pin the lineage of the other."""
        return s.branch[MAIN].lineage[NODES] == 1

    @reachable
    def forked_after_merge(s) -> Truth:
        """The main branch can go on in a lineage of its own after a merge."""
        return s.branch[MAIN].lineage[NODES] == 2

    @may_end
    def done(s) -> Truth:
        return s.draft.all(at=("published", "refused")) & (s.phase == "idle")
