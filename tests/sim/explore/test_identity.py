"""A checkpoint continues the same program only: all that a program holds is part of its identity."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fencepost.sim.explore import identity
from fencepost.sim.explore.identity import digest_of, sources


def program_with(value: Any, *, other: Any = 0) -> Callable[..., Any]:
    def program(world: Any, given: Any = value, *, named: Any = other) -> Any:
        return given, named

    return program


def closing_over(value: Any) -> Callable[..., Any]:
    return lambda world: value


class Kept:
    def __init__(self, value: int) -> None:
        self.value = value

    def first(self, world: Any) -> Any:
        return self.value, world

    def second(self, world: Any) -> Any:
        return world, self.value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (program_with(1), program_with(2)),
        (program_with(1, other=3), program_with(1, other=4)),
        (closing_over(1), closing_over(2)),
        (partial(program_with(1), given=1), partial(program_with(1), given=2)),
        (partial(closing_over(1), 1), partial(closing_over(2), 1)),
        (partial(closing_over(1), 1), partial(closing_over(1), 2)),
        (Kept(1).first, Kept(1).second),
        (Kept(1).first, Kept(2).first),
        (lambda world: world + 1, lambda world: world - 1),
        (lambda world: world.one, lambda world: world.other),
        (program_with([1, 2]), program_with([2, 1])),
        (program_with({"a": 1}), program_with({"a": 2})),
    ],
    ids=[
        *("default", "default by name", "closure", "partial by name", "partial of another", "partial"),
        *("method", "object of a method", "operator", "name", "order of a list", "value of a dict"),
    ],
)
def test_programs_that_differ_in_what_they_hold_differ(one: Any, other: Any) -> None:
    assert digest_of(one) != digest_of(other)


def test_a_program_that_is_made_again_is_the_same() -> None:
    assert digest_of(program_with({1, 2, 3})) == digest_of(program_with({3, 2, 1}))
    assert digest_of(program_with({"a": 1, "b": 2})) == digest_of(program_with({"b": 2, "a": 1}))


def test_the_sources_are_files_of_code_besides_those_of_libraries() -> None:
    """A search is continued after an upgrade of a library, and not after a change of ours or the user's."""
    found = sources()
    assert __file__ in found
    assert identity.__file__ in found
    assert pytest.__file__ not in found
    assert [file for file in found if not file.endswith(".py")] == []
