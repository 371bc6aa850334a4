"""Programs to audit, by name: the systems, the examples, and a user's own as `file.py:function`.

An example is a module of one of `FOLDERS`, found by its file's name. It holds its program as `fixed`, each
known mistake as `broken` or `mutant_...`, and what only looks right as `tempting_...`; all but the first are
its mutants. Functions whose names end with `_boto3` belong to a second program, the same on plain boto3.
"""

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.user_files import find, is_file_name, split
from fencepost.commands.values import pairs
from fencepost.sim.systems import SYSTEMS
from fencepost.testing import Options, check_program, unwrapped

FOLDERS = ("fencepost.examples.audit", "fencepost.examples.files", "fencepost.examples.zoo")
BOTO3 = "boto3"
MUTANTS = ("broken", "mutant", "tempting")
"""Prefixes of the names of mutants."""


@dataclass(frozen=True)
class Audited:
    """A program to audit, with its options."""

    name: str
    function: Callable[..., Any]
    options: Options = field(default_factory=Options)
    path: Path | None = None
    """The file it came from, when it is a user's own."""

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters that --set can give, by name."""
        found = inspect.signature(self.function).parameters
        return {name: parameter for name, parameter in found.items() if name not in ("world", "self")}


@dataclass
class Shipped:
    """A program that ships, and its mutants."""

    doc: str
    program: Callable[..., Any] | None = None
    mutants: dict[str, Callable[..., Any]] = field(default_factory=dict)
    faults: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """By mutant, where one needs others than the usual."""


def shipped(*folders: str) -> dict[str, str]:
    """The module of every example by its name, after the systems, which have none. Imports no program."""
    found = {} if folders else dict.fromkeys(SYSTEMS, "")
    for folder in folders or FOLDERS:
        if importlib.util.find_spec(folder) is None:
            continue
        for module in pkgutil.iter_modules(importlib.import_module(folder).__path__):
            if not module.ispkg:
                found[_dashed(module.name)] = f"{folder}.{module.name}"
    return found


def read_shipped(name: str, module_name: str) -> dict[str, Shipped]:
    """The programs of a name: itself, and the same on plain boto3 when the module has it."""
    if not module_name:
        return {name: _system(name)}
    module = importlib.import_module(module_name)
    doc = (module.__doc__ or "").strip().split("\n")[0]
    found: dict[str, Shipped] = {}
    for attribute, value in vars(module).items():
        on_boto3 = attribute.endswith(f"_{BOTO3}")
        part = attribute.removesuffix(f"_{BOTO3}")
        kind, _, mistake = part.partition("_")
        if (part != "fixed" and kind not in MUTANTS) or not callable(value):
            continue
        program = found.setdefault(f"{name}-{BOTO3}" if on_boto3 else name, Shipped(doc))
        if part == "fixed":
            program.program = value
        else:
            program.mutants[_dashed(mistake or kind)] = value
    return found


def _system(name: str) -> Shipped:
    system = SYSTEMS[name]
    table = system.mutant_table
    return Shipped(
        system.summary,
        system.audited(),
        {mutant: system.audited(mutant) for mutant in table},
        {"": system.faults, **{mutant: {**system.faults, **one.faults} for mutant, one in table.items()}},
    )


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def find_system(name: str, mutant: str | None = None) -> Audited:
    """The system of this name, with the known mistake of the name `mutant`."""
    found = _shipped_as(name)
    if found is not None:
        return _pick(name, found, mutant)
    if mutant is not None:
        raise BadRequest("--mutant is for the systems of --list, and the mutants that --mutate lists")
    return _own(name)


def is_own(name: str) -> bool:
    """Return True if the name is that of a program in a user's file."""
    return _shipped_as(name) is None


def mutants_of(name: str) -> list[str]:
    """The mutants of a program that ships."""
    found = _shipped_as(name)
    if found is None:
        raise BadRequest("--mutants is for the systems of --list; of a file, --mutate makes mutants")
    if not found.mutants:
        raise BadRequest(f"{name} has no mutants; --list shows what has")
    return list(found.mutants)


def _shipped_as(name: str) -> Shipped | None:
    """The program that ships under this name; None where the name may be a file's."""
    modules = shipped()
    stem = name if name in modules else name.removesuffix(f"-{BOTO3}")
    found = read_shipped(stem, modules[stem]).get(name) if stem in modules else None
    if found is None and not is_file_name(name):
        raise BadRequest(
            f"no system is called {name!r}; known: {', '.join(modules)}; your own: path/to/file.py:function"
        )
    return found


def _pick(name: str, found: Shipped, mutant: str | None) -> Audited:
    known = ", ".join(found.mutants) or "none"
    if mutant is None:
        if found.program is None:
            raise BadRequest(f"{name} has no fixed program; give --mutant one of: {known}")
        function, options = unwrapped(found.program)
        return Audited(name, function, Options(faults=found.faults.get("", {})).under(options))
    if mutant not in found.mutants:
        raise BadRequest(f"{name} has no mutant {mutant!r}; it has: {known}")
    function, options = unwrapped(found.mutants[mutant])
    return Audited(name, function, Options(faults=found.faults.get(mutant, {})).under(options))


def _own(name: str) -> Audited:
    path, wanted = split(name)
    found = find(
        name,
        "program",
        _is_program if wanted else _is_ready,
        is_what="a function with a parameter `world`",
        refusal=_refusal,
    )
    function, options = unwrapped(found)
    return Audited(f"{path}:{function.__qualname__}", function, options, Path(path))


def _is_program(value: Any) -> bool:
    """Return True if the value can be audited: it is marked, or is a function of a world."""
    return not _refusal(value)


def _refusal(value: Any) -> str:
    """Why it cannot be audited; empty if it can."""
    try:
        check_program(unwrapped(value)[0])
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _is_ready(value: Any) -> bool:
    """Return True if the value can be audited without arguments besides `world`."""
    if not _is_program(value):
        return False
    function, options = unwrapped(value)
    given = {"world"} if options.processes is None else {"world", "processes"}
    missing = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty and name not in given
    ]
    return not missing


def complete_system(_: object, __: object, incomplete: str) -> list[str]:
    """Shell completion: the names that begin so. Imports no program."""
    return [name for name in shipped() if name.startswith(incomplete)]


def complete_mutant(ctx: click.Context, _: object, incomplete: str) -> list[str]:
    """For the shell: the mutants of the system that was named before."""
    named = ctx.params.get("system") or ""
    name = named if isinstance(named, str) else named[0]
    modules = shipped()
    if name not in modules:
        return []
    found = read_shipped(name, modules[name])
    return [mutant for one in found.values() for mutant in one.mutants if str(mutant).startswith(incomplete)]


def read_parameters(system: Audited, settings: tuple[str, ...], processes: int | None) -> dict[str, Any]:
    """The arguments of the program: its defaults, overridden by --set."""
    given = {
        name: parameter.default
        for name, parameter in system.parameters.items()
        if parameter.default is not parameter.empty
    }
    if system.options.processes is not None and "processes" in system.parameters:
        given["processes"] = system.options.processes
    for name, text in _settings(settings, processes).items():
        if name not in system.parameters:
            known = ", ".join(system.parameters) or "none"
            raise BadRequest(f"{system.name} takes no {name}; it takes: {known}")
        given[name] = _value(name, text, system.parameters[name])
    missing = [name for name in system.parameters if name not in given]
    if missing:
        raise BadRequest(f"{system.name} needs {', '.join(missing)}; give --set {missing[0]}=...")
    return given


def _settings(settings: tuple[str, ...], processes: int | None) -> dict[str, str]:
    found = pairs(settings, "NAME=VALUE, as in --set jobs=3")
    if processes is None:
        return found
    if "processes" in found:
        raise BadRequest("processes is given twice, by --processes and by --set")
    return {**found, "processes": str(processes)}


def _value(name: str, text: str, parameter: inspect.Parameter) -> Any:
    """`text` as the type of the default, or of the annotation."""
    kind: Any = parameter.annotation if parameter.default is parameter.empty else type(parameter.default)
    kind = (
        int if name == "processes" else {"int": int, "float": float, "str": str, "bool": bool}.get(kind, kind)
    )
    if kind is bool:
        truths = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() not in truths:
            raise BadRequest(f"--set {name}={text}: give true or false")
        return truths[text.lower()]
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            article = "a whole number" if kind is int else "a number"
            raise BadRequest(f"--set {name}={text}: {text!r} is not {article}") from None
    if kind in (str, parameter.empty):
        return text
    raise BadRequest(f"{name} cannot be given as text; audit a function that makes it itself")
