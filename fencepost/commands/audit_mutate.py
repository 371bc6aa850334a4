"""`fencepost audit FILE:FUNCTION --mutate`: which protective steps of the user's code does nothing need?

Every mutation of the user's modules (see `sim.mutation`) is audited in an operating-system process of its
own, which loads them anew with the change. First comes the program as it is: if it does not hold, no mutant
shows anything. Its schedules also show which lines run, and a mutant of code that no schedule executes is
not tried but listed. A mutant that holds is a survivor: the step protects nothing, or the properties have a
gap, or the faults that it protects from are not in the budget.
"""

import ast
import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fencepost.commands.changed_code import Changed, changed_steps
from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.rows import MutantsResult, Row, audited_row, collect, unbroken, verdict_of
from fencepost.commands.systems import Audited, find_system, is_own
from fencepost.commands.user_files import neighbours
from fencepost.sim.explore import AuditRequest
from fencepost.sim.mutation import Mutation, loading, mutations
from fencepost.sim.world.present import is_users

SECONDS, EACH_SECONDS, GRACE_SECONDS = 600.0, 30.0, 20.0
"""Processor time for all mutants and for each; time beyond that until its process is stopped."""


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


Ask = Callable[[], AuditRequest]
"""Finds the program and makes its request; in the process of a mutant."""


Rows = Callable[[list[Mutation], Path, float], Iterator[Row]]
"""Audits these mutations of the program in a file within so many seconds: a row each, in order."""


def mutate(
    name: str,
    ask: Ask,
    seconds: float | None,
    elsewhere: Rows | None = None,
    changed: Changed | None = None,
) -> MutantsResult:
    """Audit every mutant of the program's modules, and the program; one row each.

    `elsewhere`: they run there, and not in this machine's processes. `changed`: mutants of these lines only.
    """
    if not is_own(name):
        raise BadRequest(
            "--mutate changes code of your own, path/to/file.py:function; of --list, give --mutants"
        )
    path = find_system(name).path
    assert path is not None
    files = modules(path)
    if changed is None:
        found = [mutation for file in files for mutation in mutations(file)]
    else:
        found = changed_steps(files, changed)
        if not found:
            return MutantsResult(system=name, rows=(), verdict="holds")
    if not found:
        raise BadRequest(f"{path} and the modules that it imports have no step that --mutate could leave out")
    deadline = processor_seconds() + (seconds or SECONDS)
    whole = row_of(name, files, None, ask, deadline - processor_seconds())
    if whole.verdict == "error":
        raise BadRequest(f"{name} cannot be audited: {whole.bound}")
    if whole.verdict != "holds":
        # A mutant of what is broken, or of what no time sufficed for, shows nothing.
        return MutantsResult(system=name, rows=(whole,), verdict=whole.verdict)
    why = {mutation.name: unreached(mutation, _resolved(whole.executed)) for mutation in found}
    reached = [mutation for mutation in found if not why[mutation.name]]
    tried = (
        (row_of(name, files, one, ask, deadline - processor_seconds()) for one in reached)
        if elsewhere is None
        else elsewhere(reached, path, deadline - processor_seconds())
    )
    rows, complete = collect(
        _rows(name, found, why, tried), lambda row: f"{row.safeguard or row.system}: {row.verdict}"
    )
    rows = (*rows, whole)
    verdict = verdict_of(rows, complete=complete)
    properties = unbroken(rows, complete=complete) if changed is None else ()
    return MutantsResult(system=name, rows=rows, verdict=verdict, unbroken=properties)


Ran = Mapping[str, Mapping[int, bool]]
"""By file and line: True if some schedule of the program as it is executes it."""


def _resolved(executed: Mapping[str, Mapping[str, int]]) -> Ran:
    return {
        str(Path(file).resolve()): {int(line): bool(count) for line, count in lines.items()}
        for file, lines in executed.items()
    }


def _rows(name: str, found: list[Mutation], why: Mapping[str, str], tried: Iterator[Row]) -> Iterator[Row]:
    """The rows in order: of those that some schedule can notice, what trying them gave."""
    for mutation in found:
        if why[mutation.name]:
            yield replace(_unknown(name, mutation), verdict="holds", tried=False, bound=why[mutation.name])
        else:
            yield next(tried)


def unreached(mutation: Mutation, ran: Ran) -> str:
    """Return why no schedule can notice a mutation; empty if one may."""
    lines = ran.get(str(mutation.path.resolve()), {})
    begins = [line for line in lines if line <= mutation.line]
    if begins and not lines[max(begins)]:
        return "no schedule executes this line"
    if mutation.effect in lines and not lines[mutation.effect]:
        return "the condition is never true: no schedule executes what it guards"
    return ""


def find_mutant(name: str, mutant: str) -> Audited:
    """The program with one of the mutations that `mutate` lists."""
    path = find_system(name).path
    assert path is not None
    files = modules(path)
    known = {mutation.name: mutation for file in files for mutation in mutations(file)}
    if mutant not in known:
        raise BadRequest(f"{name} has no mutant {mutant!r}; --mutate makes: {', '.join(known) or 'none'}")
    forget(files)
    with loading(known[mutant]):
        return find_system(name)


def forget(files: list[Path]) -> None:
    """Have the modules of these files loaded anew."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and Path(file).resolve() in files:
            del sys.modules[name]


def modules(path: Path) -> list[Path]:
    """The program's file, and the files of the user that it imports, directly or not."""
    found: list[Path] = []
    left = [path.resolve()]
    while left:
        file = left.pop(0)
        if file not in found:
            found.append(file)
            left += _imported(file)
    return found


def _imported(file: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            module: Any = sys.modules.get(name or "")
            if module is not None and is_users(module) and getattr(module, "__file__", None):
                yield Path(module.__file__).resolve()


def _unknown(name: str, mutation: Mutation | None) -> Row:
    """The row of an audit that has no result."""
    return Row(
        safeguard="" if mutation is None else mutation.name,
        system=name,
        kind="fixed" if mutation is None else "broken",
        verdict="undecided",
        found=False,
        code="" if mutation is None else mutation.text,
        file="" if mutation is None else str(mutation.path),
        line=0 if mutation is None else mutation.line,
        bound="not audited: the time was over",
    )


def row_of(name: str, files: list[Path], mutation: Mutation | None, ask: Ask, left: float) -> Row:
    """One audit, in a process of its own; `left`: seconds for all that are left."""
    unknown = _unknown(name, mutation)
    if left <= 0:
        return unknown
    seconds = left if mutation is None else min(left, EACH_SECONDS)
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    worker = multiprocessing.get_context("fork").Process(
        target=_audit, args=(name, files, mutation, ask, seconds, theirs)
    )
    worker.start()
    theirs.close()
    try:
        if not ours.poll(seconds + GRACE_SECONDS):
            return replace(unknown, bound="stopped: it did not come to an end")
        row: Row = ours.recv()
    except EOFError:
        return replace(unknown, bound="its process ended without a result")
    finally:
        worker.terminate()
        worker.join()
        ours.close()
    return replace(row, safeguard=unknown.safeguard, code=unknown.code, file=unknown.file, line=unknown.line)


def _audit(
    name: str, files: list[Path], mutation: Mutation | None, ask: Ask, seconds: float, pipe: Connection
) -> None:
    """In the process of a mutant: load the user's modules with the change, audit, and send the row."""
    try:
        sys.dont_write_bytecode = True
        forget(files if mutation else [])
        with loading(mutation) if mutation else contextlib.nullcontext(), neighbours(files[0]):
            request = replace(ask(), seconds=seconds, lines_run=mutation is None)
            row, _ = audited_row(mutation.name if mutation else "", request, others=True)
        row = replace(row, found=row.found or row.verdict == "error", system=name)
    except BaseException as error:  # noqa: BLE001 - a mutant that cannot even run is found
        row = Row(
            safeguard="",
            system=name,
            kind="broken",
            verdict="error",
            found=mutation is not None,
            unexpected=mutation is None,
            property="the program can be audited",
            bound=f"{type(error).__name__}: {error}",
        )
    pipe.send(row)
