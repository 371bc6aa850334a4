"""Audits on the executors of a Spark cluster: pieces of one search, or many audits side by side.

An executor loads the program as the command does, from the same files (see `sim.spark.code`), and makes
the same request of the same options. So nothing of a running search is pickled: what travels is the options,
the piece and what earlier runs showed.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fencepost.commands.audit_mutate import find_mutant, modules, row_of
from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.rows import Row
from fencepost.commands.systems import Audited, find_system, is_own
from fencepost.commands.user_files import is_file_name, neighbours, split
from fencepost.sim.explore import AuditRequest
from fencepost.sim.explore.pieces import Knowledge, Piece, Report, Workers, adopt, explored
from fencepost.sim.explore.reporting import silence
from fencepost.sim.explore.result import AuditResult
from fencepost.sim.explore.runs import Setting
from fencepost.sim.mutation import mutations
from fencepost.sim.spark.code import Code, CodeAway, code_of
from fencepost.sim.spark.jobs import TASK_FAILURES, Jobs
from fencepost.sim.spark.session import SparkAway, start
from fencepost.sim.world import Budget, places
from fencepost.sim.world.deadlines import Deadlines
from fencepost.sim.world.loops import Loops


@dataclass(frozen=True)
class Subject:
    """The program of a command, in a form that executors understand."""

    name: str
    """With the absolute path of the driver, when it is a user's own."""
    options: Mapping[str, Any]
    code: Any
    """A Spark broadcast of the code: each executor gets it once."""
    token: str
    """Of one command: workers of Spark survive tasks, and keep the program that they have loaded."""

    def system(self, prefix: str) -> Audited:
        """Return the program as this machine loads it."""
        name = prefix + self.name if is_file_name(self.name) else self.name
        mutant = self.options.get("mutant")
        return find_mutant(name, mutant) if mutant and is_own(name) else find_system(name, mutant)


@contextlib.contextmanager
def cluster(options: Mapping[str, Any]) -> Iterator[Any]:
    """Start Spark on the master that the options name, and report its errors as one line."""
    try:
        with start(options["master"] or "", name="fencepost audit", settings=TASK_FAILURES) as session:
            yield session
    except (SparkAway, CodeAway) as error:
        raise BadRequest(str(error)) from error


def subject_of(session: Any, name: str, options: Mapping[str, Any], path: Path | None) -> Subject:
    """Return the program that a command names, after it was loaded here."""
    more = [Path(one) for text in options["py_files"] for one in text.split(",") if one]
    code = code_of(path, more)
    if path is not None:
        name = f"{path.resolve()}:{split(name)[1]}"
    plain = {
        key: value for key, value in options.items() if isinstance(value, str | int | float | tuple | None)
    }
    context = session.sparkContext
    return Subject(name, plain, context.broadcast(code), f"{context.applicationId} {code.digest}")


@contextlib.contextmanager
def here(subject: Subject) -> Iterator[str]:
    """On an executor: have the program's code found. Gives the prefix of its files."""
    code: Code = subject.code.value
    with code.installed() as prefix:
        path = split(subject.name)[0]
        with neighbours(Path(prefix + path)) if is_file_name(subject.name) else contextlib.nullcontext():
            yield prefix


@dataclass(frozen=True)
class Differing:
    """The parts of a setting that searches of one audit vary."""

    budget: Budget
    steps_max: int
    muted: frozenset[str]
    lines: frozenset[str]
    faults_max: int | None

    @classmethod
    def of(cls, setting: Setting) -> "Differing":
        return cls(setting.budget, setting.steps_max, setting.muted, setting.lines, setting.faults_max)


@dataclass(frozen=True)
class ExplorePiece:
    """A job: a piece of a search. Its result is a report, also of an error."""

    subject: Subject
    setting: Differing
    knowledge: Knowledge
    generation: str
    """Of one search since it started over: an executor keeps the program and the setting for it."""
    data: Mapping[str, Any]
    runs_max: int

    def __call__(self) -> Report:
        try:
            with here(self.subject) as prefix, silence():
                setting = self._setting(prefix)
                with places.held(setting.program):
                    return explored(setting, dict(self.data), self.runs_max)
        except (BadRequest, CodeAway) as error:
            return {"error": ("AuditError", f"on an executor: {error}", [], True)}

    def _setting(self, prefix: str) -> Setting:
        if self.generation not in _SETTINGS:
            _SETTINGS.clear()
            name = f"{self.subject.token} {self.subject.name}"
            if name not in _REQUESTS:
                _REQUESTS.clear()
                _REQUESTS[name] = request_here(self.subject, prefix)
            # Pieces of one search must not know what other searches showed.
            setting = replace(
                _REQUESTS[name].setting, **vars(self.setting), deadlines=Deadlines(), loops=Loops()
            )
            adopt(setting, self.knowledge)
            _SETTINGS[self.generation] = setting
        return _SETTINGS[self.generation]


_REQUESTS: dict[str, AuditRequest] = {}
_SETTINGS: dict[str, Setting] = {}


def request_here(subject: Subject, prefix: str) -> AuditRequest:
    """Return the request of the command, on an executor; its variables are as no run has changed them."""
    from fencepost.commands.audit import request_of_options

    request = request_of_options(subject.system(prefix), subject.options)
    request.setting.variables.watch()
    return request


class Executors:
    """Explore the pieces of one search."""

    _made = 0

    def __init__(self, session: Any, subject: Subject, setting: Setting, knowledge: Knowledge) -> None:
        Executors._made += 1
        self._jobs = Jobs(session)
        self._of = (
            subject,
            Differing.of(setting),
            knowledge,
            f"{session.sparkContext.applicationId} {self._made}",
        )
        self.size = self._jobs.size

    def give(self, piece: Piece) -> None:
        self._jobs.start(piece.order, ExplorePiece(*self._of, piece.data, piece.runs_max))

    def take(self, timeout_s: float) -> list[tuple[tuple[int, ...], Report]]:
        found = self._jobs.take(timeout_s)
        if found:
            self.size = self._jobs.size
        return found

    def close(self) -> None:
        self._jobs.close()


def executors(session: Any, subject: Subject) -> Callable[[Setting, Knowledge], Workers]:
    """Return what makes the workers of a search on this cluster."""
    return lambda setting, knowledge: Executors(session, subject, setting, knowledge)


# Many audits side by side.


@dataclass(frozen=True)
class MutantRow:
    """A job: the audit of one known mistake of a system, or of the system; its result is a row."""

    subject: Subject
    mutant: str | None

    def __call__(self) -> Row:
        from fencepost.commands.audit import mutant_row_of

        with here(self.subject):
            return mutant_row_of(self.subject.name, self.mutant, self.subject.options)


@dataclass(frozen=True)
class MutationRow:
    """A job: the audit of one mutation of the user's modules, by its name; its result is a row."""

    subject: Subject
    mutation: str
    shown: str
    """The program's name on the driver."""
    seconds: float

    def __call__(self) -> Row:
        from fencepost.commands.audit import request_of_options

        subject = self.subject
        with here(subject) as prefix:
            path = subject.system(prefix).path
            assert path is not None, "a program of the user's own"
            files = modules(path)
            known = {one.name: one for file in files for one in mutations(file)}
            one = known[self.mutation]

            def ask() -> AuditRequest:
                return request_of_options(subject.system(prefix), subject.options)

            row = row_of(self.shown, files, one, ask, self.seconds)
            return replace(row, file=row.file.removeprefix(prefix))


@dataclass(frozen=True)
class ZooRows:
    """A job: some rows of the zoo."""

    code: Any
    """A Spark broadcast."""
    rows: Callable[[], tuple[Row, ...]]

    def __call__(self) -> tuple[Row, ...]:
        with self.code.value.installed():
            return self.rows()


@dataclass(frozen=True)
class Samples:
    """A job: schedules of real processes, drawn by a seed of their own; its result is that of the audit."""

    subject: Subject
    seed: int
    schedules: int | None

    def __call__(self) -> AuditResult:
        from fencepost.commands.audit import request_of_options
        from fencepost.sim.over_http.search import run_over_http

        with here(self.subject) as prefix:
            request = request_of_options(self.subject.system(prefix), self.subject.options)
            limit = request.schedules if self.schedules is None else self.schedules
            strategy = self.subject.options["strategy"] or "pct"
            request = replace(request, strategy=strategy, seed=self.seed, schedules=limit)
            return run_over_http(request).result()
