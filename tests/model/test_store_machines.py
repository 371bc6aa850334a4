"""The machines over a store: each safeguard left out gives the shortest counterexample of its classic
mistake.

The counterexamples are from the field: a lock that nobody holds because its own 412 was read as a rival's, a
409
taken for "exists", check-then-create, lost and doubled counts, a lease trusted without a fence.
"""

import re
import textwrap
from pathlib import Path

import pytest

import fencepost.model.store
from fencepost.model import Machine, check
from fencepost.model.create_only_lock import CreateOnlyLock
from fencepost.model.fenced_lease import FencedLease
from fencepost.model.kernel.language.model import kebab
from fencepost.model.swap_counter import SwapCounter

MACHINES = {kebab(machine.__name__): machine for machine in (CreateOnlyLock, SwapCounter, FencedLease)}

COUNTEREXAMPLES = {
    tuple(heading): [line.strip() for line in lines.splitlines()]
    for *heading, lines in re.findall(
        r"^(\S+) without (\S+): (\S+)\n((?: +.*\n)+)",
        (Path(__file__).parent / "store_counterexamples.txt").read_text(),
        re.MULTILINE,
    )
}
"""By machine, switch and property: the steps, as they are printed."""


@pytest.mark.parametrize(
    ("machine", "sizes", "distinct"),
    [
        (CreateOnlyLock, {}, 5_358),
        (CreateOnlyLock, {"clients": 3}, 42_278),
        (SwapCounter, {}, 316),
        (SwapCounter, {"clients": 3}, 5_956),
        (FencedLease, {}, 5_091),
        (FencedLease, {"clients": 3}, 34_208),
    ],
)
def test_everything_holds_with_all_safeguards_and_every_action_fires(machine, sizes, distinct) -> None:
    result = check(machine, sizes)
    assert {found.name: found.verdict for found in result.properties if found.verdict != "holds"} == {}
    assert result.never_fired == ()
    assert result.distinct == distinct


@pytest.mark.parametrize(
    ("machine", "switch", "name"), COUNTEREXAMPLES, ids=lambda part: getattr(part, "__name__", part)
)
def test_without_a_safeguard_the_shortest_counterexample_is_the_classic_mistake(
    machine, switch, name
) -> None:
    counterexample = check(MACHINES[machine], without=[switch])[name].counterexample
    assert counterexample is not None
    assert [re.sub(r"^\d+\. ", "", line) for line in counterexample.lines()[1:]] == COUNTEREXAMPLES[
        machine, switch, name
    ]


def test_every_switch_has_its_counterexample() -> None:
    switches = {
        (name, switch)
        for name, machine in MACHINES.items()
        for switch in (*machine.safeguards, *machine.assumptions)
    }
    assert {(machine, switch) for machine, switch, _ in COUNTEREXAMPLES} == switches


@pytest.mark.parametrize("machine", MACHINES.values())
def test_symmetry_keeps_the_verdicts(machine: type[Machine]) -> None:
    for without in ([], *([name] for name in machine.safeguards)):
        plain, reduced = check(machine, without=without), check(machine, without=without, symmetry=True)
        assert {found.name: found.verdict for found in reduced.properties} == {
            found.name: found.verdict for found in plain.properties
        }
        assert reduced.distinct < plain.distinct or plain.verdict == "violated"


def test_a_lock_whose_own_412_is_misread_is_never_given_back() -> None:
    """The mistake is not only an untrue message: nobody can use the lock again."""
    result = check(CreateOnlyLock, without=["read-back"], keep_going=True)
    assert result["free"].verdict == "violated"
    assert len(result["free"].counterexample) == 1


def test_the_worked_machine_of_the_package_runs() -> None:
    names: dict[str, object] = {}
    text = fencepost.model.store.__doc__
    block = text[text.index("    from fencepost.model import") : text.index("The pieces (")]
    exec(compile(textwrap.dedent(block), "fencepost/model/store/__init__.py", "exec"), names)
    result = check(names["Election"])
    assert result.verdict == "holds"
    assert result.never_fired == ()
    assert result.distinct == 102
