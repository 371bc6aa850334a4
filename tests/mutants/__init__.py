"""Mutants of the checker itself: one small change of its code each, judged by the quick tests of its area.

    python -m tests.mutants [--area NAME] [--only TEXT] [--share N | --all] [--seed N] [--jobs 1|2] [--list]

A mutant that no test kills shows code that can be wrong without a failing test.

    rules             makes the mutants
    areas             the table of files, and of the tests that must kill
    loading           gives a mutant to the import system
    campaign          judges them; a mutant that needs too much processor time counts as killed
    equivalent.toml   the mutants that cannot change a verdict, with the reason

The working tree is never changed: each mutant is a source text in memory of the process that runs its tests.
Mutants exist in that process alone: what a test starts with a new interpreter runs the original code.

`sim/mutation.py` makes other mutants: protective steps left out of a user's program. Its rules look for
requests to a store, which the checker does not make, and importing it would load the code to change.
"""
