"""`fencepost simulate FILE:FUNCTION`: the program of an audit on a store with latencies, in simulated time.

Every combination of swept values is a run. With `--base REV` the same runs are made of the code at that
revision, in a process of its own, and come first; what changed is stated for each run.
"""

import itertools
import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fencepost.commands.audit_base import ran_on_tree, write_tree
from fencepost.commands.changed_code import find_repository
from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.provenance import command_line
from fencepost.commands.systems import Audited, find_system, read_parameters
from fencepost.commands.user_files import neighbours
from fencepost.results import recorded
from fencepost.sim.des.latency import Profile
from fencepost.sim.des.program import NotTimed, ProgramSetup, simulate_program
from fencepost.sim.des.server import StoreModel
from fencepost.sim.explore.reporting import bind, silence
from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.keys import PRICES
from fencepost.sim.scenarios.outcome import dollars_million, dollars_month
from fencepost.sim.scenarios.result import SimulatedRun, SimulateResult
from fencepost.sim.scenarios.running import measured, profile
from fencepost.sim.scenarios.source import BadScenario, BadValue

DEFAULTS: Mapping[str, str] = {"latency": "20 ms", "operations": "100", "think": "0 ms", "client-cpu": "0 ms"}
"""As texts, like the values of --sweep."""
SWEPT = ("clients", "operations", "think", "latency", "in-flight", "client-cpu", "client-cores")
NEAR = 0.005
"""Relative differences below this are no change."""


def simulate_file(name: str, options: Mapping[str, Any]) -> SimulateResult:
    """Return the runs of a program of the user, and of its base first where one is given."""
    system = find_system(name)
    sweeps = dict(_sweep(text) for text in options["sweep"])
    unknown = [key for key in sweeps if key not in SWEPT and key not in system.parameters]
    if unknown:
        known = ", ".join([*SWEPT, *system.parameters])
        raise BadRequest(f"--sweep {unknown[0]}: there is no such key; there are {known}")
    runs = [*_runs(system, sweeps, options)]
    result = SimulateResult(
        scenario=system.name,
        runs=tuple(runs),
        checks=(),
        verdict="holds",
        title=f"{system.name} in simulated time",
        about="The program of the audit; its processes are clients that repeat what they do.",
        seed=options["seed"] or 0,
        settings={key: value for key in SWEPT if (value := _given(options, key)) is not None},
        planned=len(runs),
        notes=tuple(_notes(options, sweeps)),
    )
    return result if options["base"] is None else _against_base(name, result, options)


def _notes(options: Mapping[str, Any], sweeps: Mapping[str, Sequence[str]]) -> Iterator[str]:
    distribution = options["profile"] or "/" in "".join(options["latency"])
    constants = [value for value in sweeps.get("latency", ()) if "/" not in value]
    if distribution and constants:
        given = options["profile"] or ", ".join(options["latency"])
        yield f"the sweep of latency replaces the distribution {given} by constants: p99 shows queueing alone"


def _given(options: Mapping[str, Any], key: str) -> str | None:
    if key == "latency" and options["profile"]:
        return str(options["profile"])
    value = options[key.replace("-", "_")]
    if key == "latency":
        value = ", ".join(value) or None
    return str(value) if value is not None else DEFAULTS.get(key)


def _sweep(text: str) -> tuple[str, list[str]]:
    key, _, values = text.partition("=")
    found = [value.strip() for value in values.split(",")]
    if not key or not all(found):
        raise BadRequest(f"--sweep {text} must read KEY=A,B, as in --sweep clients=1,4,16")
    return key.strip().replace("_", "-") if key.strip().replace("_", "-") in SWEPT else key.strip(), found


def _runs(
    system: Audited, sweeps: Mapping[str, Sequence[str]], options: Mapping[str, Any]
) -> Iterator[SimulatedRun]:
    for values in itertools.product(*sweeps.values()):
        chosen = dict(zip(sweeps, values, strict=True))
        own = tuple(f"{key}={value}" for key, value in chosen.items() if key not in SWEPT)
        arguments = read_parameters(system, (*options["settings"], *own), options["processes"])
        setup = _setup(chosen, options)
        program = bind(system.function, system.name, arguments)
        within = neighbours(system.path) if system.path is not None else silence()
        try:
            with within, silence():
                found = simulate_program(program, setup)
        except NotTimed as error:
            raise BadRequest(f"{system.name}: {error}") from error
        writers = sum(1 for _ in found.operations) and (setup.clients or 1)
        yield SimulatedRun(
            parameters=chosen,
            operations=found.operations,
            throughput=found.throughput,
            dollars_month=dollars_month(found, PRICES),
            run=f"{Path(system.name).name}-{'-'.join(values) or 'run'}",
            throughput_per_writer=round(found.throughput / writers, 6) if writers else 0.0,
            dollars_million=dollars_million(found, PRICES),
            failed=found.failed,
            window_s=found.window_s,
            requests=found.requests,
            outcomes=found.outcomes,
            saturation=found.saturation,
        )


def _setup(chosen: Mapping[str, str], options: Mapping[str, Any]) -> ProgramSetup:
    def text(key: str) -> str | None:
        return chosen.get(key, _given(options, key))

    def count(key: str) -> int | None:
        found = text(key)
        if found is None:
            return None
        if not found.isdecimal() or not int(found):
            raise BadRequest(f"{key} {found}: give a whole number above 0")
        return int(found)

    def time_ns(key: str) -> int:
        return _duration(key, text(key) or "0 ms")

    latency = chosen.get("latency")
    return ProgramSetup(
        store=StoreModel(_profile(latency, options), in_flight=count("in-flight")),
        clients=count("clients"),
        operations=count("operations") or 1,
        think_ns=time_ns("think"),
        client_cpu_ns=time_ns("client-cpu"),
        client_cores=count("client-cores"),
        seed=options["seed"] or 0,
    )


def _duration(key: str, text: str) -> int:
    try:
        return units.duration(text)
    except BadValue as error:
        raise BadRequest(f"{key}: {error}") from error


def _profile(swept: str | None, options: Mapping[str, Any]) -> Profile:
    """The latencies: a constant, `p50/p99`, or a profile that `fencepost probe` wrote."""
    if swept is None and options["profile"]:
        try:
            return measured(Path(options["profile"]))
        except BadScenario as error:
            raise BadRequest(f"--profile {error}") from error
    kinds = {"default": _latency(DEFAULTS["latency"])}
    for text in (swept,) if swept is not None else options["latency"]:
        kind, equals, delay = text.rpartition("=")
        kind = kind.strip() if equals else "default"
        if kind not in ("default", *PRICES):
            raise BadRequest(f"latency {text}: no request is of kind {kind!r}; known: {', '.join(PRICES)}")
        kinds[kind] = _latency(delay)
    return profile(kinds, None, "")


def _latency(text: str) -> Any:
    """A constant in nanoseconds, or two percentiles."""
    p50, slash, p99 = text.partition("/")
    if not slash:
        return _duration("latency", text.strip())
    at = {"p50": _duration("latency", p50.strip()), "p99": _duration("latency", p99.strip())}
    if not 0 < at["p50"] <= at["p99"]:
        raise BadRequest(f"latency {text}: give P50/P99, as in --latency '15 ms/60 ms'")
    return at


# Against a revision.


def _against_base(name: str, now: SimulateResult, options: Mapping[str, Any]) -> SimulateResult:
    """Return the runs of the base and of now side by side, and what changed as notes."""
    words = shlex.split(command_line(without=("--base", "--json"), flags=("-v", "--verbose")))
    words.remove(name)
    profile_at = options["profile"]
    if profile_at:
        words = [str(Path(word).absolute()) if word == profile_at else word for word in words]
    repository = find_repository(name, options["base"])
    with tempfile.TemporaryDirectory(prefix="fencepost-base-") as scratch:
        folder = Path(scratch)
        tree = write_tree(repository, folder / "tree")
        target = folder / "before.json"
        if not ran_on_tree("simulate", name, words[2:], repository, tree, target):
            raise BadRequest(f"{name} at {options['base']} could not be simulated; see the line above")
        before = recorded(SimulateResult, json.loads(target.read_text(encoding="utf-8"))).result
    runs: list[SimulatedRun] = []
    notes = [*now.notes]
    for old, new in zip(before.runs, now.runs, strict=True):
        runs += [_named(old, options["base"]), _named(new, "now")]
        notes += _changes(old, new)
    return replace(now, runs=tuple(runs), planned=len(runs), notes=tuple(notes))


def _named(run: SimulatedRun, code: str) -> SimulatedRun:
    return replace(run, parameters={**run.parameters, "code": code})


def _changes(old: SimulatedRun, new: SimulatedRun) -> Iterator[str]:
    """Sentences on what an operation costs more or less."""
    where = "".join(f" ({key}={value})" for key, value in new.parameters.items())
    for name in dict.fromkeys([*old.operations, *new.operations]):
        before, after = old.operations.get(name), new.operations.get(name)
        if before is None or after is None:
            yield f"{name}{where}: {'is new' if before is None else 'is gone'}"
            continue
        pairs = {
            "requests": (before.requests, after.requests),
            "hops": (before.serial_hops, after.serial_hops),
            "p50 ms": (before.p50, after.p50),
            "p99 ms": (before.p99, after.p99),
        }
        if name == next(iter(new.operations)):
            pairs["per s"] = (old.throughput, new.throughput)
            pairs["$/million"] = (old.dollars_million, new.dollars_million)
        changed = [
            f"{what} {_short(was)} -> {_short(now)} ({(now / was - 1):+.0%})"
            for what, (was, now) in pairs.items()
            if was and abs(now / was - 1) > NEAR
        ]
        yield f"{name}{where}: {', '.join(changed) or 'costs what it did'}"


def _short(number: float) -> str:
    return f"{number:.4g}"


def is_program(name: str) -> bool:
    """Return True for the name of a program in a file, and False for a scenario."""
    return os.path.splitext(name.rpartition(":")[0] or name)[1] == ".py"  # noqa: PTH122 - a name, not a path
