"""The table of the campaign: files of the checker, and the quick tests that must kill their mutants.

The tests of a file are run before those of its area, and both in the order written: the likeliest killers
first. Each is a path or an id, as pytest takes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Area:
    """A part of the checker."""

    about: str
    files: Mapping[str, tuple[str, ...]]
    """By file, the tests that are run before those of the area."""
    tests: tuple[str, ...] = ()

    def selection(self, path: str) -> tuple[str, ...]:
        """Return the tests of a file, in the order in which they are run."""
        return tuple(dict.fromkeys((*self.files[path], *self.tests)))


_MODEL = "tests/model/test_"
_SYMMETRY = "tests/model/test_symmetry.py::test_"
_EXPLORE = "tests/sim/explore/test_"
_FILES = "tests/sim/filesystem/test_"
_TRUST = "tests/trust/test_"

_PROMISES = "tests/properties/promises/test_"
_RULES = (f"{_PROMISES}promises.py", f"{_PROMISES}states.py")
_KINDS = (
    *("contents", "history", "lock", "log", "noted", "once", "queue"),
    *("references", "register", "serializable", "targets"),
)
_CONTINUITY = (f"{_TRUST}replay_continuity.py", f"{_TRUST}continuity_mutations.py")

AREAS: Mapping[str, Area] = {
    "search": Area(
        "exploration of a model, its invariants and its set of visited states",
        {
            "model/kernel/search/explore.py": (f"{_MODEL}resume.py", f"{_MODEL}spill.py"),
            "model/kernel/search/expand.py": (),
            "model/kernel/search/visited.py": (f"{_MODEL}keys.py", f"{_MODEL}spill.py"),
            "model/kernel/search/keys.py": (f"{_MODEL}keys.py", f"{_TRUST}fingerprints.py"),
            "model/kernel/search/performed.py": (f"{_MODEL}refinement_by_labels.py",),
            "model/kernel/search/product.py": (f"{_MODEL}refinement_by_labels.py",),
            "model/kernel/search/refinement.py": (f"{_MODEL}refinement_by_labels.py",),
            "model/kernel/decision.py": (f"{_MODEL}properties.py", f"{_MODEL}bounds.py"),
        },
        (
            f"{_MODEL}properties.py",
            f"{_MODEL}bounds.py",
            f"{_TRUST}bounded_search.py",
            f"{_TRUST}random_machines.py",
            f"{_MODEL}spill.py",
            f"{_MODEL}explore_random.py",
            f"{_TRUST}random_wide.py",
        ),
    ),
    "fairness": Area(
        "properties of runs of a model, under fairness",
        {
            "model/kernel/temporal/decide.py": (),
            "model/kernel/temporal/lasso.py": (),
            "model/kernel/temporal/digraph.py": (f"{_MODEL}components.py",),
            "model/kernel/temporal/avoiding.py": (),
            "model/kernel/language/fairness.py": (),
        },
        (
            f"{_MODEL}temporal.py",
            f"{_TRUST}stuttering.py",
            f"{_MODEL}temporal_random.py",
            f"{_MODEL}properties.py",
        ),
    ),
    "symmetry": Area(
        "one state explored for all that differ by the numbers of members",
        {"model/kernel/search/symmetry.py": ()},
        (
            f"{_TRUST}symmetry_claim.py",
            f"{_SYMMETRY}renumbering_is_a_group_action_and_sorting_stays_in_the_orbit",
            f"{_SYMMETRY}numbers_of_members_are_renamed_in_every_kind_of_field",
            f"{_SYMMETRY}the_represented_states_are_counted_exactly",
            f"{_SYMMETRY}members_wider_than_a_word_are_distinguished_by_all_their_words",
            f"{_SYMMETRY}members_that_just_fill_a_word_keep_all_their_bits",
            f"{_SYMMETRY}a_counterexample_continues_from_its_own_start",
            f"{_SYMMETRY}only_an_id_is_renamed_with_its_member",
            f"{_SYMMETRY}a_machine_that_distinguishes_its_members_is_an_error",
            f"{_TRUST}random_wide.py::test_symmetry_keeps_the_verdict_of_a_naive_explorer",
            f"{_SYMMETRY}random_symmetric_machines_keep_every_verdict",
        ),
    ),
    "compiled": Area(
        "the search with actions and properties in C",
        {
            "model/kernel/compiled/trace.py": (),
            "model/kernel/compiled/text.py": (),
            "model/kernel/compiled/engine.py": (),
        },
        (f"{_MODEL}compiled.py", f"{_TRUST}random_machines.py"),
    ),
    "reduction": Area(
        "partial order reduction of schedules: races, sleep sets, and the order of runs",
        {
            "sim/explore/reduction.py": (
                f"{_EXPLORE}steps_by_rule.py",
                "tests/sim/threads/test_waits_reversed.py",
            ),
            "sim/explore/reduced.py": (
                f"{_EXPLORE}steps_by_rule.py",
                f"{_EXPLORE}merging.py",
                f"{_EXPLORE}pieces.py",
            ),
            "sim/explore/runs.py": (f"{_EXPLORE}endless.py",),
            "sim/world/scheduler.py": ("tests/sim/world/test_steps.py", f"{_EXPLORE}endless.py"),
            "sim/world/executor.py": ("tests/sim/world/test_steps.py", f"{_TRUST}waits_and_loops.py"),
        },
        (
            f"{_EXPLORE}other_properties.py",
            f"{_TRUST}random_monitors.py",
            f"{_TRUST}request_programs.py",
            f"{_EXPLORE}reduced_against_plain.py",
            f"{_TRUST}file_programs.py",
            f"{_TRUST}random_time.py",
        ),
    ),
    "states": Area(
        "states of a program that are met again",
        {
            "sim/explore/states.py": (
                f"{_EXPLORE}steps_by_rule.py",
                f"{_EXPLORE}merging.py",
                "tests/sim/threads/test_waits_reversed.py",
            ),
            "sim/explore/identity.py": (f"{_EXPLORE}identity.py", f"{_EXPLORE}audit.py"),
            "sim/world/check_state.py": (f"{_TRUST}monitors.py",),
        },
        (
            f"{_TRUST}random_monitors.py",
            f"{_TRUST}request_programs.py",
            f"{_EXPLORE}reduced_against_plain.py",
            f"{_EXPLORE}recall.py",
            f"{_TRUST}file_programs.py",
            f"{_EXPLORE}costs.py",
        ),
    ),
    "footprints": Area(
        "what a step reads and writes",
        {
            "sim/world/footprints.py": ("tests/sim/world/test_footprints.py",),
            "sim/world/places.py": (
                "tests/sim/boto/test_reduction.py",
                "tests/sim/boto/test_clocks_and_chance.py",
            ),
        },
        (
            f"{_TRUST}request_programs.py",
            f"{_EXPLORE}reduced_against_plain.py",
            "tests/sim/boto/test_reduction.py",
            f"{_TRUST}file_programs.py",
        ),
    ),
    "liveness": Area(
        "programs that never get anywhere, and properties of a program's runs",
        {
            "sim/explore/liveness.py": (f"{_EXPLORE}liveness.py", f"{_EXPLORE}endless.py"),
            "sim/world/monitor.py": (f"{_TRUST}monitors.py", f"{_EXPLORE}reduced_against_plain.py"),
            "sim/world/properties.py": (f"{_TRUST}monitors.py", f"{_EXPLORE}audit.py"),
        },
        (f"{_EXPLORE}liveness.py", f"{_EXPLORE}other_properties.py", f"{_TRUST}random_monitors.py"),
    ),
    "strategy": Area(
        "which searches of a program are run, in which order, and by which workers",
        {
            "sim/explore/portfolio.py": (f"{_TRUST}stages.py",),
            "sim/explore/deepening.py": (
                f"{_EXPLORE}liveness.py",
                f"{_TRUST}stages.py",
                f"{_TRUST}waits_and_loops.py::test_a_loop_with_effects_after_a_crash_is_a_lasso",
            ),
            "sim/explore/endless.py": (
                f"{_EXPLORE}endless.py",
                f"{_TRUST}waits_and_loops.py",
                f"{_TRUST}random_waits.py",
            ),
            "sim/explore/pieces.py": (f"{_EXPLORE}pieces.py", f"{_EXPLORE}deadlines.py"),
            "sim/explore/finer.py": ("tests/sim/threads/test_lines.py",),
            "sim/explore/like.py": (f"{_EXPLORE}like.py",),
            "sim/explore/rehearsal.py": (f"{_TRUST}isolation.py", f"{_EXPLORE}audit.py"),
            "sim/explore/outcome_coverage.py": ("tests/commands/test_audit_promises.py",),
        },
        (f"{_EXPLORE}endless.py", "tests/commands/test_audit_stages.py"),
    ),
    "promises": Area(
        "ready properties, in audits and on traces",
        {
            **{f"properties/promises/{name}.py": _RULES for name in _KINDS},
            "sim/world/promised.py": ("tests/sim/world/test_observations.py",),
            "sim/replay/promised.py": (
                "tests/sim/replay/test_promised.py",
                "tests/sim/replay/test_promised_orders.py",
                "tests/sim/replay/test_promised_runs.py",
            ),
        },
        ("tests/sim/world/test_promised.py", f"{_TRUST}promised.py"),
    ),
    "deadlines": Area(
        "lengths of pauses, learnt from comparisons with the clock",
        {
            "sim/world/deadlines.py": (),
            "sim/world/stamps.py": ("tests/sim/world/test_stamps.py",),
            "sim/world/times.py": (
                "tests/sim/world/test_times.py",
                f"{_TRUST}time_forms.py",
                "tests/sim/threads/test_clock_errors.py",
            ),
        },
        (f"{_EXPLORE}deadlines.py", f"{_TRUST}time.py", f"{_TRUST}random_time.py"),
    ),
    "survival": Area(
        "what a power loss leaves of a file system",
        {
            "sim/filesystem/survival.py": (),
            "sim/filesystem/tree.py": (f"{_FILES}images.py", f"{_FILES}calls.py"),
        },
        (
            f"{_FILES}power_loss.py",
            f"{_TRUST}file_programs.py",
            f"{_FILES}reduced_against_plain.py",
            f"{_FILES}versions.py",
        ),
    ),
    "replay": Area(
        "judges of recorded runs",
        {
            "properties/refinement/automaton.py": ("tests/properties/refinement/test_coverage.py",),
            "properties/refinement/rules.py": (),
            "properties/refinement/request_rules.py": (f"{_TRUST}replay_requests.py",),
            "properties/refinement/symbols.py": ("tests/sim/replay/test_columns.py",),
            "properties/refinement/long_runs.py": ("tests/sim/replay/test_windows.py",),
            "sim/replay/walk.py": ("tests/sim/replay/test_walk.py",),
            "sim/replay/judging.py": ("tests/sim/replay/test_planted.py",),
            "sim/replay/continuity.py": _CONTINUITY,
            "sim/replay/register.py": _CONTINUITY,
        },
        (
            "tests/properties/refinement/test_follow.py",
            "tests/properties/refinement/test_behaviours.py",
            "tests/sim/replay/test_walk.py",
            "tests/sim/replay/test_columns.py",
            f"{_TRUST}replay_requests.py",
        ),
    ),
    "requests": Area(
        "the bucket of a world, and the effects of faults on requests",
        {
            "impl/store/bucket.py": ("tests/impl/store/test_memory.py",),
            "sim/world/bucket.py": (
                "tests/sim/world/test_bucket.py",
                "tests/sim/boto/test_operations.py",
            ),
            "sim/world/effects.py": (),
            "sim/world/request_steps.py": (),
        },
        (
            "tests/sim/world/test_steps.py",
            f"{_TRUST}request_programs.py",
            "tests/properties/test_store_behaviour.py::TestMemory",
        ),
    ),
}
