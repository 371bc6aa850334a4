"""Judge mutants: choose them, run the tests of each, keep the verdicts, and print the table."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event, Lock

from tests.mutants.areas import AREAS, Area
from tests.mutants.loading import VARIABLE
from tests.mutants.rules import ROOT, Mutant, mutants, selected

QUICK = "not slow and not server and not spark"
EQUIVALENT = Path(__file__).parent / "equivalent.toml"
SHARE, LEAST, SEED = 0.02, 3, 1
"""Of the mutants of each file, how many at least, and the seed of the choice."""
CPU_FACTOR, CPU_MORE = 3, 20
"""Seconds of processor time of a mutant: those of the tests without a change, so often, and so many more."""
WALL_FACTOR = 12
"""Seconds of a mutant, in seconds of processor time: a mutant that sleeps for ever uses none."""
MEMORY_BYTES = 6 << 30
VERDICTS = ("killed", "timed out", "survived", "equivalent")


class Mistake(Exception):
    """The campaign's own tables are wrong, or the tests fail without a mutant."""


@dataclass(frozen=True)
class Judged:
    """A mutant and its verdict."""

    key: str
    area: str
    path: str
    line: int
    verdict: str
    """One of `VERDICTS`."""
    reason: str
    """The test that failed, or the reason why the mutant is equivalent."""
    seconds: float
    difference: str
    source: str
    """Digest of the file without the change."""
    selection: tuple[str, ...]
    """The tests on which the verdict rests: the one that failed, or all of the selection."""
    tests: str
    """Digest of those tests."""


@dataclass(frozen=True)
class Baseline:
    """The tests of a file without a mutant."""

    tests: str
    source: str
    cpu_seconds: float


def digest(*texts: str | bytes) -> str:
    """Return a short digest of some texts, in this order."""
    found = hashlib.sha256()
    for text in texts:
        each = text.encode() if isinstance(text, str) else text
        found.update(len(each).to_bytes(8, "big") + each)
    return found.hexdigest()[:16]


def digest_of_tests(selection: Sequence[str], root: Path = ROOT) -> str:
    """Return the digest of the files of a selection, in the order of the selection."""
    return digest(
        *(part for test in selection for part in (test, (root / test.partition("::")[0]).read_bytes()))
    )


def equivalents(path: Path = EQUIVALENT) -> dict[str, str]:
    """Return the reasons of the mutants that cannot change a verdict, by key."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
    found: dict[str, str] = {}
    for entry in entries:
        if not entry.get("reason", "").strip():
            raise Mistake(f"{path.name}: {entry['key']} has no reason")
        if entry["key"] in found:
            raise Mistake(f"{path.name}: {entry['key']} is listed twice")
        found[entry["key"]] = entry["reason"]
    return found


def stale(known: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the keys that no mutant of the table's files has."""
    listed = set(known)
    paths = {key.partition("::")[0] for key in listed}
    made = {each.key for path in paths if path in files() for each in mutants(path, root)}
    return sorted(listed - made)


def files(areas: Mapping[str, Area] = AREAS) -> dict[str, str]:
    """Return the area of each file."""
    return {path: name for name, area in areas.items() for path in area.files}


class Campaign:
    """One run of the campaign, which continues from the verdicts of earlier ones."""

    def __init__(
        self, results: Path, *, areas: Mapping[str, Area] = AREAS, root: Path = ROOT, known: Mapping[str, str]
    ) -> None:
        self._results = results
        self._areas = areas
        self._root = root
        self._equivalent = known
        self._lock = Lock()
        self._stopped = Event()
        self._running: set[int] = set()
        self._judged: dict[str, Judged] = {}
        self._baselines: dict[str, Baseline] = {}
        if results.exists():
            stored = json.loads(results.read_text(encoding="utf-8"))
            some = ({**each, "selection": tuple(each["selection"])} for each in stored["mutants"])
            self._judged = {each["key"]: Judged(**each) for each in some}
            self._baselines = {path: Baseline(**each) for path, each in stored["baselines"].items()}

    def run(
        self, chosen: Mapping[str, Sequence[Mutant]], *, jobs: int, show: Callable[[Judged], None]
    ) -> tuple[list[Judged], bool]:
        """Judge the chosen mutants, by file; return the verdicts, and False after Ctrl-C.

        The mutants of the other files are judged before the error is raised that one file's tests fail.
        """
        found: list[Judged] = []
        mistakes: list[str] = []
        pool = ThreadPoolExecutor(jobs)
        try:
            waiting = []
            for path, some in chosen.items():
                new = [each for each in some if not self._is_known(each)]
                found += [self._judged[each.key] for each in some if self._is_known(each)]
                marked = [self._marked(each) for each in new if each.key in self._equivalent]
                found += marked
                left = [each for each in new if each.key not in self._equivalent]
                if left:
                    waiting.append(pool.submit(self._judge_file, path, left, found, show))
            for each in as_completed(waiting):
                try:
                    each.result()
                except Mistake as mistake:
                    mistakes.append(str(mistake))
        except KeyboardInterrupt:
            return found, False
        finally:
            self._stop()
            pool.shutdown(cancel_futures=True)
        if mistakes:
            raise Mistake("\n".join(mistakes))
        return found, True

    def _judge_file(
        self, path: str, some: Sequence[Mutant], found: list[Judged], show: Callable[[Judged], None]
    ) -> None:
        baseline = self._baseline(path)
        for mutant in some:
            if self._stopped.is_set():
                return
            judged = self._judge(mutant, baseline)
            if self._stopped.is_set():
                return
            with self._lock:
                found.append(judged)
                self._judged[judged.key] = judged
                self._write()
                show(judged)

    def _selection(self, path: str) -> tuple[str, ...]:
        return self._areas[files(self._areas)[path]].selection(path)

    def _source(self, path: str) -> str:
        return (self._root / path).read_text(encoding="utf-8")

    def _is_known(self, mutant: Mutant) -> bool:
        """Return true if the same mutant of the same file was judged by the same tests.

        A mutant that was killed stays so as long as the test that failed is selected and unchanged.
        """
        before = self._judged.get(mutant.key)
        if before is None or mutant.key in self._equivalent or before.verdict == "equivalent":
            return False
        selection = self._selection(mutant.path)
        fits = set(before.selection) <= set(selection) if before.verdict == "killed" else True
        rests = before.selection if before.verdict == "killed" else selection
        return (
            fits
            and before.source == digest(self._source(mutant.path))
            and before.tests == digest_of_tests(rests, self._root)
        )

    def _marked(self, mutant: Mutant) -> Judged:
        return self._verdict(mutant, "equivalent", self._equivalent[mutant.key], 0.0)

    def _verdict(self, mutant: Mutant, verdict: str, reason: str, seconds: float) -> Judged:
        text, selection = self._source(mutant.path), self._selection(mutant.path)
        failed = tuple(each for each in selection if reason.startswith(each.partition("::")[0]))[:1]
        rests = failed if verdict == "killed" and failed else selection
        return Judged(
            key=mutant.key,
            area=files(self._areas)[mutant.path],
            path=mutant.path,
            line=mutant.line,
            verdict=verdict,
            reason=reason,
            seconds=round(seconds, 1),
            difference=mutant.difference(text),
            source=digest(text),
            selection=rests,
            tests=digest_of_tests(rests, self._root),
        )

    def _baseline(self, path: str) -> Baseline:
        """Run the tests of a file without a mutant: they must pass, and their time is the measure."""
        tests, source = digest_of_tests(self._selection(path), self._root), digest(self._source(path))
        known = self._baselines.get(path)
        if known is not None and (known.tests, known.source) == (tests, source):
            return known
        ran = self._tests(path, self._source(path), cpu_limit=1_800)
        if self._stopped.is_set():
            return Baseline(tests, source, 0.0)
        if ran.code != 0:
            raise Mistake(f"the tests of {path} fail without a mutant:\n{ran.output[-3000:]}")
        if not ran.was_loaded:
            raise Mistake(f"the tests of {path} do not load it")
        made = Baseline(tests, source, round(ran.cpu_seconds, 1))
        with self._lock:
            self._baselines[path] = made
            self._write()
        return made

    def _judge(self, mutant: Mutant, baseline: Baseline) -> Judged:
        started = time.perf_counter()
        limit = int(CPU_FACTOR * baseline.cpu_seconds) + CPU_MORE
        ran = self._tests(mutant.path, mutant.applied(self._source(mutant.path)), cpu_limit=limit)
        seconds = time.perf_counter() - started
        if ran.timed_out:
            return self._verdict(mutant, "timed out", f"{limit} s of processor time", seconds)
        if ran.code == 0:
            return self._verdict(mutant, "survived", "", seconds)
        return self._verdict(mutant, "killed", _first_failure(ran.output), seconds)

    def _tests(self, path: str, text: str, *, cpu_limit: int) -> "_Ran":
        """Run the tests of a file in a process of their own, with this text in the place of the file's."""
        selection = self._selection(path)
        if not selection:
            return _Ran(0, "", 0.0, timed_out=False, was_loaded=True)
        with tempfile.TemporaryDirectory(prefix="fencepost-mutant-") as folder:
            order = Path(folder, "mutant.json")
            change = {"module": _module(path), "path": str(self._root / path), "text": text}
            order.write_text(json.dumps(change), encoding="utf-8")
            environment = {**os.environ, VARIABLE: str(order), "PYTHONHASHSEED": "0"}
            environment.pop("FENCEPOST_HYPOTHESIS", None)
            words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
            words += ["-p", "tests.mutants.loading", "-n", "0", "-m", QUICK, "--tb", "line", *selection]
            with Path(folder, "output").open("w+", encoding="utf-8", errors="replace") as output:
                process = subprocess.Popen(
                    words,
                    cwd=self._root,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=lambda: _limit(cpu_limit),
                )
                with self._lock:
                    self._running.add(process.pid)
                timed_out = False
                try:
                    code = process.wait(WALL_FACTOR * cpu_limit)
                except subprocess.TimeoutExpired:
                    code, timed_out = -signal.SIGKILL, True
                finally:
                    with self._lock:
                        self._running.discard(process.pid)
                    _kill(process.pid)
                    process.wait()
                output.seek(0)
                used = order.with_suffix(".seconds")
                return _Ran(
                    code,
                    output.read(),
                    float(used.read_text()) if used.exists() else 0.0,
                    timed_out=timed_out or code in (-signal.SIGXCPU, -signal.SIGKILL),
                    was_loaded=order.with_suffix(".loaded").exists(),
                )

    def _stop(self) -> None:
        self._stopped.set()
        with self._lock:
            for pid in self._running:
                _kill(pid)

    def _write(self) -> None:
        """Store every verdict, with the lock held: a campaign that is stopped continues from here."""
        self._results.parent.mkdir(parents=True, exist_ok=True)
        text = {
            "mutants": [asdict(each) for _, each in sorted(self._judged.items())],
            "baselines": {path: asdict(each) for path, each in sorted(self._baselines.items())},
        }
        new = self._results.with_suffix(".new")
        new.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
        new.replace(self._results)


@dataclass(frozen=True)
class _Ran:
    code: int
    output: str
    cpu_seconds: float
    timed_out: bool
    was_loaded: bool


def _module(path: str) -> str:
    """Return the name by which a file is imported."""
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return dotted if dotted.startswith(("fencepost.", "tests.")) else f"fencepost.{dotted}"


def _limit(cpu_seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _first_failure(output: str) -> str:
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.partition(" ")[2].partition(" - ")[0]
    return output.strip().splitlines()[-1] if output.strip() else "the process ended without a word"


def choose(
    names: Sequence[str],
    *,
    share: float,
    least: int,
    seed: int,
    only: str = "",
    areas: Mapping[str, Area] = AREAS,
) -> dict[str, list[Mutant]]:
    """Return the mutants to judge, by file; a share of 1 is every mutant."""
    chosen: dict[str, list[Mutant]] = {}
    for name in names:
        for path in areas[name].files:
            every = mutants(path)
            some = [each for each in every if only in each.key] if only else every
            chosen[path] = some if only or share >= 1 else selected(every, share, least, seed)
    return {path: some for path, some in chosen.items() if some}


def table(found: Sequence[Judged], areas: Mapping[str, Area] = AREAS) -> Iterator[str]:
    """The lines of the table: by area, the number of mutants of each verdict."""
    columns = ("made", *VERDICTS)
    yield f"{'area':12}" + "".join(f"{each:>12}" for each in columns)
    rows = [(name, [each for each in found if each.area == name]) for name in areas]
    for name, some in [*rows, ("all", list(found))]:
        if some or name == "all":
            counts = [len(some), *(sum(each.verdict == verdict for each in some) for verdict in VERDICTS)]
            yield f"{name:12}" + "".join(f"{count:>12}" for count in counts)


def survivors(found: Sequence[Judged]) -> Iterator[str]:
    """The survivors: file, line, key for the list of equivalent mutants, and the change."""
    for each in sorted((one for one in found if one.verdict == "survived"), key=lambda one: one.key):
        yield f"\n{each.path}:{each.line}: survived"
        yield f"  {each.key}"
        yield from (f"  {line}" for line in each.difference.splitlines()[3:])


def refreshed(found: Iterable[Judged], every: Iterable[Mutant]) -> list[Judged]:
    """Verdicts with the present line numbers of their mutants."""
    lines = {each.key: each.line for each in every}
    return [replace(each, line=lines.get(each.key, each.line)) for each in found]
