"""A search that is continued by another process ends like one that was never interrupted."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.model import BadSettings, Bool, Int, Machine, Model, action, check
from fencepost.model.kernel.compiled import build
from fencepost.model.kernel.report.result import CheckResult
from fencepost.model.kernel.search.explore import Explorer
from fencepost.model.kernel.search.resume import Saved
from fencepost.model.textbook.philosophers import Philosophers
from fencepost.model.textbook.two_phase import TwoPhase

TRANSIENT = {"seconds": 0.0, "peak_bytes": 0, "notes": ()}


def outcome(result: CheckResult) -> CheckResult:
    return replace(result, **TRANSIENT)


class Stopping(Machine):
    """The one deadlock is at depth 1, and the search goes on behind it."""

    at = Int(0, 9)
    is_off = Bool()

    @action
    def count(s):
        s.require(~s.is_off)
        s.at = (s.at + 1) % 10

    @action
    def stop(s):
        s.require(~s.is_off, s.at == 0)
        s.is_off = True


CASES: list[tuple[Any, dict[str, Any]]] = [
    (TwoPhase, {"sizes": {"managers": 2}}),
    (TwoPhase, {"sizes": {"managers": 2}, "symmetry": True}),
    (TwoPhase, {"sizes": {"managers": 2}, "without": ["all-prepared"]}),
    (TwoPhase, {"sizes": {"managers": 2}, "without": ["all-prepared"], "keep_going": True}),
    (Philosophers, {"sizes": {"seats": 3}, "without": ["one-left-handed"], "keep_going": True}),
    (Stopping, {"keep_going": True}),
    (TwoPhase, {"sizes": {"managers": 14}, "max_states": 500, "exact": True}),
]
"""One word, symmetry, a violation, the same and more after it, cycles, a deadlock, states of two words."""


@pytest.mark.parametrize(("machine", "options"), CASES)
def test_stopped_at_every_depth(tmp_path: Path, machine: Any, options: dict[str, Any]) -> None:
    whole = check(machine, **options)
    for depth in range(whole.depth):
        place = tmp_path / str(depth)
        check(machine, **options, max_depth=depth, resume=place)
        again = check(machine, **options, resume=place)
        assert any("levels were taken" in note for note in again.notes)
        assert outcome(again) == outcome(whole)
        assert outcome(check(machine, **options, resume=place)) == outcome(whole), "of a finished one"


class Narrow(Machine):
    """Every level has a few states, and the compiled search takes many levels in one call."""

    at = Int(0, 300)
    side = Bool()

    @action
    def count(s):
        s.require(s.at < 300)
        s.at += 1

    @action
    def turn(s):
        s.side = ~s.side


@pytest.mark.skipif(not build.has_compiler(), reason="there is no C compiler")
def test_every_level_of_a_compiled_search_is_recorded(tmp_path: Path) -> None:
    model = Model(Narrow)
    plain = Explorer(model).run()
    for _ in range(2):
        found = Explorer(model, compiled=True, resume=tmp_path).run()
        assert [level.tolist() for level in found.levels] == [level.tolist() for level in plain.levels]
    assert found.resumed == len(plain.levels)


def test_a_level_that_a_bound_has_cut_is_not_recorded(tmp_path: Path) -> None:
    whole = check(TwoPhase, {"managers": 3})
    for most in range(1, whole.distinct, 41):
        place = tmp_path / str(most)
        check(TwoPhase, {"managers": 3}, max_states=most, resume=place)
        assert outcome(check(TwoPhase, {"managers": 3}, resume=place)) == outcome(whole)


def test_whatever_a_kill_leaves_is_a_shorter_search(tmp_path: Path) -> None:
    """A record that ends anywhere, also in the middle of a line or of a level without a line."""
    model = Model(TwoPhase, {"managers": 3})
    whole = Explorer(model, resume=tmp_path / "whole").run()
    lines, levels = ((tmp_path / "whole" / name).read_bytes() for name in ("search.jsonl", "levels.bin"))
    for end in range(0, len(lines), 97):
        place = tmp_path / "cut"
        place.mkdir(exist_ok=True)
        (place / "search.jsonl").write_bytes(lines[:end])
        (place / "levels.bin").write_bytes(levels)
        found = Explorer(model, resume=place).run()
        assert found.resumed == max(0, lines[:end].count(b"\n") - 1)
        assert [level.tolist() for level in found.levels] == [level.tolist() for level in whole.levels]
        assert (found.fired, found.generated, found.found) == (whole.fired, whole.generated, whole.found)
        assert (place / "search.jsonl").read_bytes() == lines
        assert (place / "levels.bin").read_bytes() == levels


def test_a_memory_limit_holds_while_a_record_is_read(tmp_path: Path) -> None:
    options = {"sizes": {"managers": 6}}
    whole = check(TwoPhase, **options)
    check(TwoPhase, **options, max_depth=11, resume=tmp_path)
    again = check(TwoPhase, **options, memory=48 << 20, spill=tmp_path, resume=tmp_path)
    assert outcome(again) == outcome(whole)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"sizes": {"managers": 2}}, "labels"),
        ({"without": ["all-prepared"]}, "switches"),
        ({"deadlock": False}, "deadlocks"),
        ({"symmetry": True}, "kind of states"),
    ],
)
def test_the_record_of_another_search_is_refused(tmp_path: Path, other: Any, what: str) -> None:
    check(TwoPhase, {"managers": 3}, max_depth=2, resume=tmp_path)
    with pytest.raises(BadSettings, match=f"another search, which differs in: {what}; give an empty"):
        check(TwoPhase, **{"sizes": {"managers": 3}, **other}, resume=tmp_path)


MACHINE = """
from fencepost.model import Int, Machine, action, invariant
from limits import LAST

class Counting(Machine):
    at = Int(0, LAST)

    @action
    def count(s):
        s.require(s.at < LAST)
        s.at += 1

    @invariant
    def counted(s):
        return s.at >= 0
"""


def run(folder: Path, *options: str, **kwargs: Any) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "fencepost",
        "check",
        "counting.py:Counting",
        "--resume",
        "record",
        *options,
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **kwargs)


def test_a_change_of_what_the_machine_imports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(MACHINE)
    (tmp_path / "limits.py").write_text("LAST = 9\n")
    assert run(tmp_path, "--no-deadlock").returncode == 0
    assert "levels were taken" in run(tmp_path, "--no-deadlock").stdout
    (tmp_path / "limits.py").write_text("LAST = 8 + 1\n")
    refused = run(tmp_path, "--no-deadlock")
    assert refused.returncode == 2
    assert "differs in: text of the machine" in refused.stderr


def up_to(last: int) -> type[Machine]:
    class Counting(Machine):
        at = Int(0, 9)

        @action
        def count(s):
            s.require(s.at < last)
            s.at += 1

    return Counting


def test_a_machine_that_a_function_made_of_another_value_is_refused(tmp_path: Path) -> None:
    check(up_to(3), deadlock=False, resume=tmp_path)
    check(up_to(3), deadlock=False, resume=tmp_path)
    with pytest.raises(BadSettings, match="differs in: text of the machine"):
        check(up_to(5), deadlock=False, resume=tmp_path)


def test_a_machine_without_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook the next cell may define another machine of the same name."""
    machine = up_to(3)
    monkeypatch.setattr(machine, "__module__", "a_notebook")
    with pytest.raises(BadSettings, match="no file whose text could be compared"):
        check(machine, deadlock=False, resume=tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("search.jsonl", b"[]\n"), ("search.jsonl", b"\xff\n"), ("levels.bin", b"")],
)
def test_a_damaged_record_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    check(TwoPhase, {"managers": 3}, max_depth=2, resume=tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadSettings, match=r"is damaged or was edited: .* give another directory"):
        check(TwoPhase, {"managers": 3}, resume=tmp_path)


def test_a_flipped_bit_is_damage(tmp_path: Path) -> None:
    check(TwoPhase, {"managers": 3}, max_depth=2, resume=tmp_path)
    levels = bytearray((tmp_path / "levels.bin").read_bytes())
    levels[-1] ^= 1
    (tmp_path / "levels.bin").write_bytes(levels)
    with pytest.raises(BadSettings, match="damaged"):
        check(TwoPhase, {"managers": 3}, resume=tmp_path)


def test_a_record_that_was_edited_is_refused(tmp_path: Path) -> None:
    """Without a digest a record could be edited into "holds": a level or a violation left out."""
    options: dict[str, Any] = {"sizes": {"managers": 2}, "without": ["all-prepared"], "keep_going": True}
    assert check(TwoPhase, **options, resume=tmp_path / "whole").verdict == "violated"
    lines = (tmp_path / "whole" / "search.jsonl").read_bytes().splitlines(keepends=True)
    levels = (tmp_path / "whole" / "levels.bin").read_bytes()
    edited = {f"without line {at}": [*lines[:at], *lines[at + 1 :]] for at in range(1, len(lines) - 1)}
    for at in range(1, len(lines)):
        row = json.loads(lines[at])
        for name, value in (
            ("found", {}),
            ("generated", 0),
            ("fired", {}),
            ("states", 0),
            ("deadlock", None),
        ):
            changed = json.dumps(row | {name: value}).encode() + b"\n"
            if changed != lines[at]:
                edited[f"{name} of line {at}"] = [*lines[:at], changed, *lines[at + 1 :]]
    assert len(edited) > 20
    for number, content in enumerate(edited.values()):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "search.jsonl").write_bytes(b"".join(content))
        (place / "levels.bin").write_bytes(levels)
        with pytest.raises(BadSettings, match="damaged or was edited"):
            check(TwoPhase, **options, resume=place)


def test_two_searches_do_not_share_a_record(tmp_path: Path) -> None:
    model = Model(TwoPhase)
    with Saved(tmp_path, model), pytest.raises(BadSettings, match="used by another search"):
        check(model, resume=tmp_path)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSettings, match=r"cannot record the search in .*: .*irectory"):
        check(TwoPhase, resume=tmp_path / "file" / "below")


@pytest.mark.slow
def test_a_killed_process_is_continued(tmp_path: Path) -> None:
    """SIGKILL at ten moments of one search; the last process ends as if it were the first."""
    code = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from fencepost.model import check
        from fencepost.model.textbook.philosophers import Philosophers
        from fencepost.model.textbook.two_phase import TwoPhase
        found = check(TwoPhase, {"managers": 9}, resume=Path(sys.argv[1]))
        print(found.distinct, found.generated, found.depth, found.verdict)
        """
    )
    command = [sys.executable, "-c", code]
    whole = subprocess.run([*command, str(tmp_path / "whole")], capture_output=True, text=True, check=True)
    for moment in range(10):
        with subprocess.Popen([*command, str(tmp_path / "cut")], stdout=subprocess.PIPE, text=True) as killed:
            try:
                killed.wait(0.6 + 0.4 * moment)
            except subprocess.TimeoutExpired:
                os.kill(killed.pid, signal.SIGKILL)
    last = subprocess.run([*command, str(tmp_path / "cut")], capture_output=True, text=True, check=True)
    assert last.stdout == whole.stdout
