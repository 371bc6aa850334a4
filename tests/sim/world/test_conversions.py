"""The modules whose `int` and `float` keep times: a search remembers them for as long as they are loaded."""

import sys
import types

import pytest

from fencepost.sim.world import conversions


def test_a_module_that_is_loaded_anew_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a mutant of the user's module, which takes its place, loses the sources of numbers."""
    for converts in ("int", "float"):
        module = types.ModuleType("numbers_of_user")
        module.__file__ = "numbers_of_user.py"
        exec(f"def f(text):\n    return {converts}(text)\n", vars(module))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        for _ in range(2):
            _, found = conversions.look(None, [])
            assert [name for names, name, *_ in found if names is vars(module)] == [converts]


def test_a_module_with_a_name_of_its_own_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("own_numbers_of_user")
    module.__file__ = "own_numbers_of_user.py"
    exec("def f(text):\n    return int(text)\n", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert [name for names, name, *_ in conversions.look(None, [])[1] if names is vars(module)] == ["int"]
    vars(module)["int"] = len
    assert not [name for names, name, *_ in conversions.look(None, [])[1] if names is vars(module)]
