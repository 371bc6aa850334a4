"""Writes the reference next to this file from the code itself, so that it cannot say anything else.

python docs/reference/generate.py            # write
python docs/reference/generate.py --check    # say what is out of date, and end with 1 when something is
"""

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import fencepost.model
from fencepost.commands.entry import SUMMARIES, group
from fencepost.commands.models import SHIPPED, find_machine
from fencepost.impl.lifecycle import status as lifecycle_status
from fencepost.impl.store import Outcome, events
from fencepost.impl.store.events import PHASES
from fencepost.impl.store.layers.traced import REFUSED
from fencepost.impl.store.requests import Absent, Anything, Matches
from fencepost.model import Model
from fencepost.results import COMMANDS, result_class
from fencepost.sim.des.paths import READS, WRITES
from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.keys import KEYS, Key, latency
from fencepost.sim.scenarios.pathfiles import MAINTENANCE, STEP, TOP
from fencepost.sim.trace.schema import KINDS

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from schema import json_schema  # noqa: E402 - it lies beside this script

TIMES = (units.duration, units.positive_duration, latency)
NOTE = "<!-- Written by docs/reference/generate.py; change the code, not this page. -->\n"


def commands() -> str:
    """Every command with its arguments and options."""
    parts = ["# Commands\n", NOTE]
    for name in SUMMARIES:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        parts += _command(f"fencepost {name}", command)
    return "\n".join(parts)


def _command(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"## `{path}`\n"
    yield f"`{' '.join([path, *command.collect_usage_pieces(context)])}`\n"
    yield _paragraphs(command.help or command.short_help or "")
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    if options:
        yield "| option | what it does |\n|---|---|"
        yield "\n".join(_option(option, context) for option in options) + "\n"
    if command.epilog:
        yield _paragraphs(command.epilog)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(f"{path} {name}", inner)


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None, f"{option.name} has no help"
    about = _cell(record[1]).replace("] [", "] \\[")  # `[a] [b]` would be a link
    return f"| `{_cell(record[0])}` | {about} |"


def _paragraphs(text: str) -> str:
    return inspect.cleandoc(text).replace("\b\n", "") + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def scenarios() -> str:
    """Every key of a scenario file."""
    rows = [f"| `{name}` | {_default(key)} | {_cell(key.says)} |" for name, key in KEYS.items()]
    head = "| key | when not given | what it means |\n|---|---|---|"
    tables = [
        ("A described path", "Its file has", TOP),
        (
            "A step",
            f"`[[step]]` and `[[maintenance.NAME.step]]`; kinds: {', '.join(sorted(READS | WRITES))}",
            STEP,
        ),
        ("Maintenance of a described path", "`[maintenance.NAME]`", MAINTENANCE),
    ]
    paths = [
        "\n".join(
            [f"## {title}\n", f"{text}:\n", "| key | what it means |\n|---|---|"]
            + [f"| `{name}` | {_cell(about)} |" for name, about in keys.items()]
            + [""]
        )
        for title, text, keys in tables
    ]
    return "\n".join(["# Scenario keys\n", NOTE, head, *rows, "", *paths])


def _default(key: Key) -> str:
    value = key.default
    if value is None:
        return ""
    if isinstance(value, dict) and set(value) == {"default"}:
        value = value["default"]
    if key.parse in TIMES:
        return f'`"{value / 1e6:g} ms"`'  # they are kept in nanoseconds
    return f"`{_cell(str(value))}`"


def event_schema() -> str:
    """The columns of the event table, with what the class says of each."""
    about = dict(_field_docs(events, "Event"))
    rows = [
        f"| `{field}` | {_type(kind)} | {_cell(about.get(field, ''))} |"
        for field, kind in events.Event.__annotations__.items()
    ]
    head = "| column | type | what it holds |\n|---|---|---|"
    values = [
        ("phase", PHASES),
        ("kind", (*sorted(KINDS - {""}), "... of a note: what the code calls it")),
        (
            "condition",
            (*(kind.__name__.lower() for kind in (Absent, Matches, Anything)), "only-if", "unless"),
        ),
        ("outcome", (*(outcome.value for outcome in Outcome), REFUSED)),
    ]
    value_rows = [f"| `{name}` | {', '.join(map(_value, found))} |" for name, found in values]
    value_head = "\n## Values\n\nEmpty where a column does not apply.\n\n| column | values |\n|---|---|"
    parts = ["# Events\n", NOTE, _paragraphs(events.__doc__ or ""), head, *rows, value_head, *value_rows, ""]
    return "\n".join(parts)


def _value(text: str) -> str:
    return text.removeprefix("... ") if text.startswith("...") else f"`{text}`"


def _type(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _field_docs(module: ModuleType, name: str) -> Iterator[tuple[str, str]]:
    """The text that stands below each field of a class."""
    tree = ast.parse(inspect.getsource(module))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    field = ""
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            field = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and field:
            yield field, str(node.value.value)
            field = ""


def model_interface() -> str:
    """What a machine's author imports, and the machines that ship."""
    parts = [
        "# Models\n",
        NOTE,
        _paragraphs(fencepost.model.__doc__ or ""),
        "## Names\n",
        "| name | what it is |\n|---|---|",
    ]
    for name in sorted(fencepost.model.__all__):
        value = getattr(fencepost.model, name)
        text = inspect.getdoc(value) if callable(value) or isinstance(value, type) else ""
        parts.append(f"| `{name}` | {_cell((text or '').split(chr(10) * 2)[0])} |")
    parts.append("\n## Machines that ship\n")
    for name in SHIPPED:
        parts += _machine(name)
    return "\n".join(parts)


def _machine(name: str) -> Iterator[str]:
    machine = find_machine(name)
    model = Model(machine, {})
    sizes = ", ".join(f"{size}={value}" for size, value in model.sizes.items()) or "none"
    yield f"### `{name}`\n"
    yield _paragraphs((machine.__doc__ or "").split("\n\n")[0])
    yield f"Sizes: {sizes}.\n"
    yield "| property | kind | what it says |\n|---|---|---|"
    yield "\n".join(f"| `{p.name}` | {p.kind} | {_cell(p.doc)} |" for p in model.properties) + "\n"
    for word, named in (("safeguard", machine.safeguards), ("assumption", machine.assumptions)):
        if named:
            yield f"| {word} | what it is |\n|---|---|"
            yield "\n".join(f"| `{n}` | {_cell(str(text))} |" for n, text in dict(named).items()) + "\n"


PAGES = {
    "commands.md": commands,
    "scenarios.md": scenarios,
    "events.md": event_schema,
    "models.md": model_interface,
}


def pages() -> Iterator[tuple[str, str]]:
    """Every generated file with its text."""
    for name, make in PAGES.items():
        yield name, make()
    for command in COMMANDS:
        schema = json_schema(command, result_class(command))
        yield f"schemas/{command}.json", json.dumps(schema, indent=2)
    yield (
        "schemas/lifecycle-status.json",
        json.dumps(json_schema("lifecycle status", lifecycle_status.Status), indent=2),
    )


def main(words: list[str]) -> int:
    outdated = []
    for name, made in pages():
        text = made.rstrip("\n") + "\n"
        file = HERE / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            outdated.append(name)
            if "--check" not in words:
                file.write_text(text, encoding="utf-8")
    sys.stdout.write("".join(f"docs/reference/{name}\n" for name in outdated))
    return 1 if outdated and "--check" in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
