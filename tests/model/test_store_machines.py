"""The machines over a store: each safeguard left out is told as the shortest story of its classic mistake.

The stories are from the field: a lock that nobody holds because its own 412 was read as a rival's, a 409
taken for "exists", check-then-create, lost and doubled counts, a lease trusted without a fence.
"""

import re
import textwrap
from pathlib import Path

import pytest

import holdfast.model.store
from holdfast.model import Machine, check
from holdfast.model.create_only_lock import CreateOnlyLock
from holdfast.model.fenced_lease import FencedLease
from holdfast.model.kernel.model import kebab
from holdfast.model.swap_counter import SwapCounter

MACHINES = {kebab(machine.__name__): machine for machine in (CreateOnlyLock, SwapCounter, FencedLease)}

STORIES = {
    tuple(heading): [line.strip() for line in lines.splitlines()]
    for *heading, lines in re.findall(
        r"^(\S+) without (\S+): (\S+)\n((?: +.*\n)+)",
        (Path(__file__).parent / "store_stories.txt").read_text(),
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
def test_with_all_safeguards_everything_holds_and_every_action_fires(machine, sizes, distinct) -> None:
    result = check(machine, sizes)
    assert {found.name: found.verdict for found in result.properties if found.verdict != "holds"} == {}
    assert result.never_fired == ()
    assert result.distinct == distinct


@pytest.mark.parametrize(
    ("machine", "switch", "name"), STORIES, ids=lambda part: getattr(part, "__name__", part)
)
def test_without_a_safeguard_the_shortest_story_is_the_classic_mistake(machine, switch, name) -> None:
    story = check(MACHINES[machine], without=[switch])[name].story
    assert story is not None
    assert [re.sub(r"^\d+\. ", "", line) for line in story.lines()[1:]] == STORIES[machine, switch, name]


def test_every_switch_has_its_story() -> None:
    switches = {
        (name, switch)
        for name, machine in MACHINES.items()
        for switch in (*machine.safeguards, *machine.assumptions)
    }
    assert {(machine, switch) for machine, switch, _ in STORIES} == switches


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
    assert len(result["free"].story) == 1


def test_the_worked_machine_of_the_package_runs_as_it_says() -> None:
    names: dict[str, object] = {}
    text = holdfast.model.store.__doc__
    block = text[text.index("    from holdfast.model import") : text.index("The pieces (")]
    exec(compile(textwrap.dedent(block), "holdfast/model/store/__init__.py", "exec"), names)
    result = check(names["Election"])
    assert result.verdict == "holds"
    assert result.never_fired == ()
    assert result.distinct == 102
