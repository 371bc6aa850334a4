"""Every protective step of a file is found, left out alone, and nothing else changes."""

import ast
import difflib
import importlib.util
from pathlib import Path
from typing import Any

from fencepost.sim.mutation import loading, mutated, mutations

CODE = """
def write(s3, store, world):
    s3.put_object(Bucket="b", Key="k", IfNoneMatch="*")
    options = {"Bucket": "b", "IfMatch": "1"}
    options["IfNoneMatch"] = "*"
    store.put("k", b"", when=ABSENT)
    store.put("k", b"", when=ANYTHING)

def create(store, me):
    before = store.get("k").body == me
    reply = store.put("k", me, when=Matches(etag))
    if reply.outcome is UNKNOWN:
        found = store.get("k")
        return found.body == me
    return store.get("k").body != me

def count(store, n):
    n += 1
    m = n + 1
    return m + 2

def retry(store):
    while store.put("k", b"", when=ANYTHING).outcome is UNKNOWN:
        pass
    try:
        store.put("k", b"", when=ANYTHING)
    except Error:
        if code not in known:
            raise
    if done:
        return
    if more:
        return
    else:
        store.get("k")

def clean(store):
    store.delete("data")
    store.delete("index")
    key = store.get("k").body
    store.delete(key)

def check(view):
    return view.get("n") == b"1" + 1

def program(world):
    store.put("n", b"", when=ABSENT)
    world.spawn(count, world.store())
    world.always("n", check)
    world.finally_("m", lambda view: view.count + 1)
"""
ANYTHING = "when=__import__('fencepost.impl.store', fromlist=['ANYTHING']).ANYTHING"
EXPECTED = [
    (3, "condition", "    s3.put_object(Bucket='b', Key='k')"),
    (4, "condition", "    options = {'Bucket': 'b'}"),
    (5, "condition", "    pass"),
    (6, "condition", f"    store.put('k', b'', {ANYTHING})"),
    (11, "condition", f"    reply = store.put('k', me, {ANYTHING})"),
    (14, "read-back-true", "        return True"),
    (14, "read-back-false", "        return False"),
    (15, "read-back-true", "    return True"),
    (15, "read-back-false", "    return False"),
    (18, "plus-one", "    pass"),
    (19, "plus-one", "    m = n"),
    (23, "retry", "    store.put('k', b'', when=ANYTHING).outcome is UNKNOWN"),
    (28, "guard", "        pass"),
    (30, "guard", "    pass"),
    (38, "delete-order", "    store.delete('index')"),
    (39, "delete-order", "    key = store.get('k').body"),
]


def test_each_step_is_left_out_alone(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(CODE)
    before = ast.unparse(ast.parse(CODE)).split("\n")
    found = []
    for mutation in mutations(file):
        after = ast.unparse(mutated(mutation)).split("\n")
        added = [line[2:] for line in difflib.ndiff(before, after) if line.startswith("+ ")]
        assert len(added) == 1, (mutation, added)
        found.append((mutation.line, mutation.kind, added[0]))
    assert found == EXPECTED
    assert file.read_text() == CODE


def test_names_are_unique(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text("def f(n):\n    return (n + 1) * (n + 1)\n")
    assert [mutation.name for mutation in mutations(file)] == ["code.py:2:plus-one", "code.py:2:plus-one.2"]


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location("_mutated", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_module_is_loaded_with_the_change_and_afterwards_without(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text("def f(n):\n    return n + 1\n")
    (mutation,) = mutations(file)
    with loading(mutation):
        assert _load(file).f(1) == 1
    assert _load(file).f(1) == 2
