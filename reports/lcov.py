"""Outcome coverage in the form of lcov: lines that ran, and the outcomes of each request line as its
branches.

A request is a block of its line, and an outcome is a branch of the block, numbered by the order of columns
in the table of `fencepost audit -v`; an outcome that the store's rules and the budget do not allow is no
branch.
"""

from collections.abc import Iterator

from fencepost.results import AuditCoverage, RequestLine

NUMBERS = {
    name: number
    for number, name in enumerate(
        ("200", "404", "409", "412", "503", "lost before", "lost after", "late", "sent twice", "304", "416")
    )
}


def lcov(coverage: AuditCoverage, name: str = "") -> str:
    """Return the text of an lcov tracefile."""
    files = sorted({*coverage.executed, *(row.file for row in coverage.requests)})
    lines = [f"TN:{''.join(letter if letter.isalnum() else '_' for letter in name)}"]
    for file in files:
        rows = [row for row in coverage.requests if row.file == file]
        ran = {int(line): count for line, count in coverage.executed.get(file, {}).items()}
        ran |= {row.line: sum(row.outcomes.values()) for row in rows}
        lines += [f"SF:{file}", *(f"DA:{line},{count}" for line, count in sorted(ran.items()))]
        lines += [f"LF:{len(ran)}", f"LH:{sum(1 for count in ran.values() if count)}"]
        branches = [*_branches(rows)]
        lines += [text for text, _ in branches]
        lines += [f"BRF:{len(branches)}", f"BRH:{sum(1 for _, met in branches if met)}", "end_of_record"]
    return "\n".join(lines) + "\n"


def _branches(rows: list[RequestLine]) -> Iterator[tuple[str, bool]]:
    blocks: dict[int, int] = {}
    for row in rows:
        block = blocks.get(row.line, -1) + 1
        blocks[row.line] = block
        for outcome, count in row.outcomes.items():
            yield f"BRDA:{row.line},{block},{NUMBERS[outcome]},{count}", count > 0
