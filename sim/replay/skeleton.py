"""A first map of a trace into a model, as Python text: keys, roles, and a branch for all that was recorded.

Keys become patterns: their folder is constant, the rest is the value by which keys belong together; where
there are many folders, only the first of them is. A key alone in its folder that is written again and again
is a kind by itself. Numbers among the trace fields that rise become counted roles. Every branch proposes the
actions of the model whose names fit best, and lists how often the trace has it. The text runs as it is; what
it proposes must be read.
"""

import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fencepost.model import Machine, Model
from fencepost.sim.trace.reading import Report, batches
from fencepost.sim.trace.schema import completed

EVENTS_MAX = 500_000
_WRITES = ("put", "delete", "complete-upload")
_ACTORS = (
    "worker",
    "writer",
    "client",
    "process",
    "node",
    "party",
    "parties",
    "agent",
    "collector",
    "reader",
)
_VERBS = {
    "absent": ("creat", "claim", "take", "acquir", "begin", "start", "open", "put", "write"),
    "matches": ("replac", "renew", "prolong", "take", "swap", "updat", "complet", "heartbeat", "writ", "put"),
    "delete": ("delet", "remov", "releas", "give", "collect", "free", "drop"),
}
_IMPORTED = ("COUNTED", "STUTTER", "Actions", "Keys", "Observation", "Refinement", "Role", "where")
_FIELD_VALUES_MAX = 12
"""A trace field with more values is a name or a number, not a state."""
_FOLDERS_MAX = 12
_WRITES_OF_ONE = 5
"""A key alone in its folder that is written as often is a kind by itself."""


_COLUMNS = (
    *("process", "incarnation", "op", "phase", "kind", "key"),
    *("condition", "outcome", "trace_fields"),
)


class _Seen:
    """The keys, requests and fields of one kind of keys in a trace."""

    def __init__(self) -> None:
        self.pattern = ""
        self.has_name = True
        """False if there is but one key."""
        self.keys: set[str] = set()
        self.requests: Counter[tuple[str, str, str]] = Counter()
        """By kind, condition and outcome."""
        self.fields: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, other: "_Seen") -> None:
        self.keys |= other.keys
        self.requests += other.requests
        for field, values in other.fields.items():
            self.fields[field] |= values


def skeleton(files: Sequence[Path], name: str, machine: type[Machine], report: Report) -> str:
    """The text of a map from the trace to the machine, which the user named so."""
    folders, processes = _look(files, report)
    model = Model(machine)
    fields, numbers = _states(folders), _numbers(folders)
    has_names = all(seen.has_name for seen in folders.values())
    return "\n".join(
        [
            f'"""A map from a trace to {machine.__name__}: read it all, and try it on a driven audit."""',
            "",
            "from fencepost.model import Model",
            f"from fencepost.properties.refinement import {', '.join(_imported(numbers))}",
            *_import(name, machine),
            "",
            "",
            f"class {machine.__name__}Map(Refinement):",
            "    # The keys of the trace; the named group is the value by which they belong together.",
            "    keys = (",
            *(
                f"        Keys({_singular(one)!r}, {seen.pattern!r}),  # keys: {len(seen.keys):,}"
                for one, seen in folders.items()
            ),
            "    )",
            '    runs = "key:name"  # all keys with one name are a run of their own; see --explain-runs'
            if has_names
            else '    runs = "run"  # as recorded, since there are keys without a name; see --explain-runs',
            "    roles = (",
            f'        Role("process", ("process",), most={max(1, processes - 1)}),',
            *(
                f'        Role("{field}", ("{field}",), COUNTED, most={most}),  # 0 for the first in the run'
                for field, most in numbers.items()
            ),
            "    )",
            f"    trace_fields = {tuple(sorted(fields))!r}  # {_values(fields)}",
            "    # Actions that no event shows: move those that an event shows into `actions`.",
            f"    hidden = {tuple(one for one in model.actions if not _is_shown(one, folders))!r}",
            "",
            "    def __init__(self) -> None:",
            f"        super().__init__(Model({machine.__name__}))",
            "",
            "    def actions(self, seen: Observation) -> Actions:",
            "        if not seen.done:",
            "            return STUTTER  # a refused request changes nothing",
            f"        # The actions of the model: {', '.join(model.actions)}",
            *_branches(folders, model, tuple(numbers)),
            "        return STUTTER",
            "",
        ]
    )


def _look(files: Sequence[Path], report: Report) -> tuple[dict[str, _Seen], int]:
    folders: defaultdict[str, _Seen] = defaultdict(_Seen)
    processes: set[str] = set()
    count = 0
    asked: dict[tuple[Any, ...], tuple[str, str]] = {}
    for table in batches(files, report):
        whole = completed(table)
        names = (
            "process",
            "incarnation",
            "op",
            "phase",
            "kind",
            "key",
            "condition",
            "outcome",
            "trace_fields",
        )
        for process, life, op, phase, kind, key, condition, outcome, words in zip(
            *(whole[name].to_pylist() for name in names), strict=True
        ):
            if phase == "request":
                asked[process, life, op] = condition, words
            if phase not in ("response", "landed") or kind not in _WRITES:
                continue
            processes.add(process)
            had, fields = asked.pop((process, life, op), (condition, words))
            seen = folders[key.rpartition("/")[0]]
            seen.keys.add(key)
            seen.requests[kind, condition or had, outcome] += 1
            for word in (words or fields).split():
                field, _, value = word.partition("=")
                seen.fields[field].add(value)
        count += len(whole)
        if count >= EVENTS_MAX:
            break
    return _kinds(folders), len(processes)


def _kinds(folders: Mapping[str, _Seen]) -> dict[str, _Seen]:
    """The kinds of keys by name."""
    if len(folders) > _FOLDERS_MAX:
        merged: defaultdict[str, _Seen] = defaultdict(_Seen)
        for folder, seen in folders.items():
            merged[folder.partition("/")[0]].add(seen)
        folders = merged
    found: dict[str, _Seen] = {}
    for folder, seen in sorted(folders.items()):
        is_outer = any(other.startswith(f"{folder}/") for other in folders) or not folder
        seen.pattern = f"{re.escape(folder)}{'/' if folder else ''}(?P<name>{'[^/]+' if is_outer else '.+'})"
        name = folder.rpartition("/")[2] or "object"
        if len(seen.keys) == 1 and seen.requests.total() >= _WRITES_OF_ONE:
            (key,) = seen.keys
            seen.pattern, seen.has_name, name = re.escape(key), False, key.rpartition("/")[2] or name
        found[name if name not in found else folder] = seen
    return found


def _import(name: str, machine: type[Machine]) -> list[str]:
    """The line that imports the machine: from the user's file beside the map, or from where it ships."""
    file, _, named = name.rpartition(":")
    if file.endswith(".py"):
        return ["", f"from {Path(file).stem} import {named}"]
    return [f"from {machine.__module__} import {machine.__name__}"]


def _singular(folder: str) -> str:
    word = re.sub(r"\W", "_", folder)
    word = word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
    return word + "_" if keyword.iskeyword(word) or not word else word


def _states(folders: dict[str, _Seen]) -> dict[str, set[str]]:
    """The fields that have few values in the whole trace."""
    every = _every(folders)
    return {field: values for field, values in every.items() if len(values) <= _FIELD_VALUES_MAX}


def _numbers(folders: dict[str, _Seen]) -> dict[str, int]:
    """The fields that are numbers, with more values than a state has, and their largest rank."""
    many = {field: values for field, values in _every(folders).items() if len(values) > _FIELD_VALUES_MAX}
    return {
        field: max(map(int, values)) - min(map(int, values))
        for field, values in many.items()
        if all(value.isascii() and value.isdecimal() and len(value) < 19 for value in values)
    }


def _every(folders: dict[str, _Seen]) -> dict[str, set[str]]:
    every: defaultdict[str, set[str]] = defaultdict(set)
    for seen in folders.values():
        for field, values in seen.fields.items():
            every[field] |= values
    return every


def _imported(numbers: Collection[str]) -> list[str]:
    return [name for name in _IMPORTED if numbers or name != "COUNTED"]


def _values(fields: dict[str, set[str]]) -> str:
    shown = [f"{field}: {', '.join(sorted(values))}" for field, values in sorted(fields.items())]
    return "; ".join(shown) or "none in this trace; record some with `fields`"


def _verb(kind: str, condition: str) -> str:
    return "delete" if kind == "delete" else "absent" if condition == "absent" else "matches"


def _is_shown(action: str, folders: dict[str, _Seen]) -> bool:
    return any(
        _fits(action, folder, kind, condition) > 0
        for folder, seen in folders.items()
        for kind, condition, outcome in seen.requests
        if outcome == "done"
    )


def _fits(action: str, folder: str, kind: str, condition: str) -> int:
    """Weigh how well the name of an action fits a request, by the name of the folder and by its verb."""
    words = action.lower().split("_")
    verbs = {verb for verb, stems in _VERBS.items() if any(word.startswith(stems) for word in words)}
    wanted = _verb(kind, condition)
    noun = _singular(folder).lower()[:4] in action.lower()
    is_other = ("delete" in verbs) != (wanted == "delete")
    return 2 * noun + (wanted in verbs) - 3 * (is_other and bool(verbs))


def _branches(folders: dict[str, _Seen], model: Model, numbers: tuple[str, ...]) -> list[str]:
    lines = []
    for folder, seen in folders.items():
        for kind in _WRITES:
            found = Counter[str]()
            for (one, condition, outcome), count in seen.requests.items():
                if one == kind:
                    found[f"{condition or 'no condition'} -> {outcome}"] += count
            if not found:
                continue
            counts = ", ".join(f"{count:,} {what}" for what, count in found.most_common(4))
            lines.append(f'        if seen.what == "{_singular(folder)}" and seen.kind == "{kind}":')
            lines.append(f"            # {counts}")
            conditions = {c for one, c, outcome in seen.requests if one == kind and outcome == "done"}
            for condition in sorted(conditions):
                lines += _branch(folder, kind, condition, model, numbers, alone=len(conditions) == 1)
    return lines


def _branch(
    folder: str, kind: str, condition: str, model: Model, numbers: tuple[str, ...], *, alone: bool
) -> list[str]:
    ranked = sorted(model.actions, key=lambda action: -_fits(action, folder, kind, condition))
    best = [one for one in ranked if _fits(one, folder, kind, condition) > 0]
    top = _fits(best[0], folder, kind, condition) if best else 0
    chosen = [one for one in best if _fits(one, folder, kind, condition) == top]
    proposed = " + ".join(_does(one, model, numbers) for one in chosen) or "STUTTER"
    if kind == "delete" and chosen:
        proposed += " + where('it is gone', lambda s: True, STUTTER)"  # the user knows the field
    if alone:
        return [f"            return {proposed}"]
    return [f'            if seen.condition == "{condition}":', f"                return {proposed}"]


def _does(action: str, model: Model, numbers: tuple[str, ...]) -> str:
    labels = [dict(label.parameters) for label in model.labels if label.action == action]
    words = [repr(action)]
    for name in labels[0] if labels else ():
        values = {label[name] for label in labels}
        if "done" in values:
            words.append(f'{name}="done"')
        elif counted := [one for one in numbers if one.startswith(name)]:
            words.append(f'{name}=seen.rank("{counted[0]}")')
        elif all(isinstance(value, int) for value in values) and _is_actor(name):
            words.append(f'{name}=seen.rank("process")')
    return f"self.does({', '.join(words)})"


def _is_actor(parameter: str) -> bool:
    """True for `w`, `worker`, and what else models call the process that acts."""
    return any(actor.startswith(parameter[:1]) for actor in _ACTORS)
