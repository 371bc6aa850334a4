"""Counterexamples as Mermaid text, for documents and comments that render it.

The run of a program is a sequence diagram, that of a model a flow of states: a box a step with what it
changed, the action on the arrow.
"""

from collections.abc import Iterator, Sequence

from fencepost.reports.check_text import shown
from fencepost.reports.media import printable
from fencepost.reports.page.sequence import ROWS_MAX, Event, rows_of
from fencepost.results import TraceStep

FIELDS_MAX, VALUE_MAX = 12, 60
"""Of one state: fields, and characters of a value."""


def mermaid(events: Sequence[Event]) -> str:
    """The run of a program."""
    rows = rows_of(events)
    names = [row.process for row in rows if row.process] + [row.key for row in rows if row.key]
    ids = {name: f"n{at}" for at, name in enumerate(dict.fromkeys(names))}
    lines = [f"participant {number} as {_statement(name)}" for name, number in ids.items()]
    for row in rows[:ROWS_MAX]:
        process, key = ids.get(row.process, ""), ids.get(row.key, "")
        text = _statement(f"{row.text}: {row.outcome}" if row.outcome else row.text)
        if row.kind == "request":
            lines.append(f"{process}->>{key}: {text}")
            lines += [f"{key}--x{process}: reply lost"] if row.lost else []
        elif row.kind == "answer":
            lines.append(f"{key or process}--{'x' if row.lost else '>>'}{process}: {text}")
        elif ids:
            lines.append(f"Note over {process or next(iter(ids.values()))}: {text}")
    if len(rows) > ROWS_MAX:
        lines.append(f"Note over n0: {len(rows) - ROWS_MAX} more moments are left out")
    return "\n".join(["sequenceDiagram", *(f"    {line}" for line in lines)])


def mermaid_states(trace: Sequence[TraceStep]) -> str:
    """The run of a model, from its start to the violation or round its loop."""
    lines = []
    for at, step in enumerate(trace[:ROWS_MAX]):
        lines.append(f'n{at}["{"<br/>".join(map(_label, _fields(step)))}"]')
        if at:
            values = ", ".join(f"{name}={value}" for name, value in step.parameters.items())
            lines.append(f'n{at - 1} -->|"{_label(f"{step.action}({values})")}"| n{at}')
        if step.back_to is not None:
            lines.append(f'n{at} -->|"and again"| n{step.back_to}')
    last = len(trace) - 1
    if len(trace) > ROWS_MAX:
        lines.append(f'n{ROWS_MAX - 1} -->|"{len(trace) - ROWS_MAX} more steps"| n{last}["violated"]')
    lines.append(f"style n{last} stroke:#c00,stroke-width:3px")
    return "\n".join(["flowchart TD", *(f"    {line}" for line in lines)])


def _fields(step: TraceStep) -> Iterator[str]:
    """Yield the lines of a box: the values of the start, or the changes of the step."""
    values = {name: _short(value) for name, value in (step.state or {}).items()}
    values |= {name: f"{_short(old)} → {_short(new)}" for name, (old, new) in (step.changes or {}).items()}
    for name, text in list(values.items())[:FIELDS_MAX]:
        yield f"{name}: {text}"
    if len(values) > FIELDS_MAX:
        yield f"and {len(values) - FIELDS_MAX} more"
    elif not values:
        yield "nothing changes" if step.action is not None else "start"


def _short(value: object) -> str:
    text = shown(value)
    return text if len(text) <= VALUE_MAX else f"{text[: VALUE_MAX - 1]}…"


def _statement(text: str) -> str:
    """Text without the characters that end a statement or begin an entity."""
    return _escaped(text, "#;%") or "-"


def _label(text: str) -> str:
    """Text within quotation marks, of which nothing becomes markup."""
    return _escaped(text, '#;%&<>"`') or "-"


def _escaped(text: str, special: str) -> str:
    return " ".join("".join(f"#{ord(c)};" if c in special else c for c in printable(text)).split())
