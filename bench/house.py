"""Sizes of the house: attributes of the world, writes to other objects, untyped worlds, one request, lines.

python -m bench.house              # prints JSON

It measures the tree from which `fencepost` is imported, so `path/to/python bench/house.py` with the
interpreter of another checkout measures that checkout.
"""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import fencepost.sim
from fencepost.impl.store import ANYTHING
from fencepost.sim.explore import ReducedSearch, Setting
from fencepost.sim.world import NO_FAULTS, World, places

ROOT = Path(fencepost.sim.__file__).parents[1]
LAYERS = ("model", "impl", "properties", "sim", "reports", "fencepost", "examples", "bench")
CLASSES = ("World", "Settings", "RunState", "StepRecord", "Scheduler", "Executor", "Monitor")
WORLDS = frozenset({"world", "_world", "run", "_run", "record", "step"})
"""Names of variables and attributes that hold a world or one of its parts."""


def trees(*layers: str) -> Iterator[tuple[Path, ast.Module]]:
    for layer in layers:
        for file in sorted((ROOT / layer).rglob("*.py")):
            yield file, ast.parse(file.read_text())


def written(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every attribute that an assignment in `tree` sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node


def last_name(value: ast.expr) -> str:
    if isinstance(value, ast.Name):
        return value.id
    return value.attr if isinstance(value, ast.Attribute) else ""


def attributes() -> dict[str, set[str]]:
    """By class: the names that its `__init__` sets, or the fields of a dataclass."""
    found: dict[str, set[str]] = {}
    for _, tree in trees("sim/world"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name in CLASSES:
                fields = {one.target.id for one in node.body if is_field(one)}  # type: ignore[attr-defined]  # is_field looked
                found[node.name] = fields | set_by_init(node)
    return found


def is_field(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and "ClassVar" not in ast.unparse(node.annotation)
    )


def set_by_init(owner: ast.ClassDef) -> set[str]:
    return {
        one.attr
        for method in owner.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for one in written(method)
        if last_name(one.value) == "self"
    }


def foreign_writes(names: set[str]) -> dict[str, int]:
    """By file of `sim`: assignments to attributes of a world or its parts from outside of them."""
    found: dict[str, int] = {}
    for file, tree in trees("sim"):
        count = sum(one.attr in names and last_name(one.value) in WORLDS for one in written(tree))
        if count:
            found[str(file.relative_to(ROOT))] = count
    return found


def writes_to_others() -> int:
    """Assignments in the folders of the world to an attribute of any object but `self`."""
    folders = ("world", "explore", "threads", "filesystem", "over_http", "real")
    return sum(
        last_name(one.value) not in ("self", "cls")
        for _, tree in trees(*(f"sim/{folder}" for folder in folders))
        for one in written(tree)
    )


def world_parameters() -> dict[str, int]:
    """Parameters of `sim` that hold a world or its run, and how many of them are `Any`."""
    found = {"any": 0, "all": 0}
    for file, tree in trees("sim"):
        names = ("world",) if "systems" in file.parts else ("world", "run")
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue  # a lambda has no annotations
            for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if one.arg in names:
                    found["all"] += 1
                    found["any"] += one.annotation is None or ast.unparse(one.annotation) == "Any"
    return found


def one_request() -> dict[str, Any]:
    """The deepest chain of our functions, and all calls, while one request of an audited process is taken."""
    calls = 0
    deepest: list[str] = []
    taking = False

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls, deepest, taking
        name = frame.f_code.co_name
        if event == "return" and name == "_take":
            taking = False
        if event != "call":
            return
        if name == "_take" and len(search.stack) == 2:
            taking = True
        if taking and frame.f_globals.get("__name__", "").startswith("fencepost."):
            calls += 1
            chain = list(callers(frame))
            if len(chain) > len(deepest):
                deepest = chain

    def program(world: World) -> None:
        store = world.store()
        world.spawn(lambda: [store.put("key", body, when=ANYTHING) for body in (b"1", b"2", b"3")], name="a")
        world.always("small", lambda view: len(view.get("key") or b"") < 2)

    search = ReducedSearch(Setting(program, NO_FAULTS))
    with places.held(program):  # the search for clocks and locks to replace calls much, and once
        sys.setprofile(profile)
        try:
            search.explore()
        finally:
            sys.setprofile(None)
    return {"calls": calls, "longest_chain": len(deepest), "chain": deepest}


def callers(frame: FrameType | None) -> Iterator[str]:
    """Our functions from the search down to this one."""
    names = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("fencepost."):
            names.append(f"{module.removeprefix('fencepost.')}:{frame.f_code.co_name}")
        frame = frame.f_back
    yield from reversed(names)


def lines() -> dict[str, int]:
    """By layer: lines of Python that are no tests."""
    return {
        layer: sum(len(file.read_text().splitlines()) for file in (ROOT / layer).rglob("*.py"))
        for layer in LAYERS
    }


def main() -> None:
    found = attributes()
    foreign = foreign_writes(set().union(*found.values()))
    counted = lines()
    sys.stdout.write(
        json.dumps(
            {
                "attributes": {name: len(names) for name, names in sorted(found.items())},
                "foreign_writes": {"total": sum(foreign.values()), "files": foreign},
                "writes_to_other_objects": writes_to_others(),
                "world_parameters": world_parameters(),
                "one_request": one_request(),
                "lines": {**counted, "total": sum(counted.values())},
            },
            indent=2,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
