"""Every file that a command reads, with bytes changed anywhere: one line and exit code 2, or a true answer.

A change may leave a file that can be read: then its answer may be any verdict. It is never a traceback, never
several lines of refusal, and a search that continues a record never has another verdict than the whole one.
"""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.commands.exit_codes import Exit
from fencepost.impl.objects.buckets import Buckets
from fencepost.sim.scenarios.loading import load, points, shipped
from fencepost.sim.scenarios.source import BadScenario
from fencepost.sim.trace import table_of, write_json_lines, write_parquet
from tests.commands.running import exit_of
from tests.commands.test_lifecycle import RULES, XML
from tests.commands.test_replay import BAD, GOOD, lock, traced
from tests.depth import examples
from tests.fuzzing.grammar import NUMBERS, TEXTS
from tests.reports.samples import write_everything

QUICK, DEEP = 12, 1500
TOKENS = [text.encode("utf-8", "surrogatepass") for text in (*NUMBERS, *TEXTS)] + [
    b"\xff",
    b"\0",
    b"[" * 3000,
]


def changed(whole: bytes, chance: random.Random) -> bytes:
    """Some places of a file, as damage or a careless editor leaves them."""
    made = bytearray(whole)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(7):
            case 0:
                del made[at:]
            case 1 if made:
                made[at % len(made)] ^= chance.randrange(1, 256)
            case 2:
                made[at:at] = chance.choice(TOKENS)
            case 3:
                del made[at : at + chance.randint(1, 30)]
            case 4:
                other = chance.randrange(len(made) + 1)
                made[at : at + 20] = made[other : other + 20]
            case 5:  # a value of JSON or TOML becomes another one
                numbers = [place for place, byte in enumerate(made) if chr(byte).isdigit()]
                if numbers:
                    place = chance.choice(numbers)
                    made[place : place + 1] = chance.choice(TOKENS)
            case _:
                lines = bytes(made).split(b"\n")
                chance.shuffle(lines)
                made[:] = b"\n".join(lines)
    return bytes(made)


class Reader:
    """A command with a valid file, which is replaced by damaged ones."""

    def __init__(self, words: list[str], file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.words, self.file, self._capsys = words, file, capsys
        self.whole = file.read_bytes()

    def run(self) -> tuple[int, str, str]:
        code = exit_of(*self.words)
        return code, *self._capsys.readouterr()

    def try_all(self, allowed: set[int], restore: Callable[[], object] = lambda: None) -> None:
        code, out, err = self.run()
        assert code in allowed - {Exit.BAD_REQUEST}, (code, out, err)
        whole, noticed = (code, err), 0
        for seed in range(examples(QUICK, DEEP)):
            restore()
            damaged = changed(self.whole, random.Random(seed))
            self.file.write_bytes(damaged)
            code, out, err = self.run()
            where = f"seed {seed} of {' '.join(self.words)}: {code} {out[-500:]} {err[-1500:]}"
            assert code in allowed, where
            assert "Traceback" not in out + err, where
            if code == Exit.BAD_REQUEST:
                assert len([line for line in err.splitlines() if line.startswith("fencepost: ")]) == 1, where
            noticed += (code, err) != whole
        self.file.write_bytes(self.whole)
        assert noticed, "no damage was noticed"


ANY = {Exit.HOLDS, Exit.VIOLATED, Exit.BAD_REQUEST, Exit.UNDECIDED}


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "jsonl.gz"])
def test_traces(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"t.{kind}"
    table = table_of(traced(GOOD, BAD, lock("locks/c", "cid+3")))
    if kind == "parquet":
        write_parquet(file, table)
    else:
        write_json_lines(tmp_path / "t.jsonl", table)
        if kind.endswith("gz"):
            file.write_bytes(gzip.compress((tmp_path / "t.jsonl").read_bytes(), mtime=0))
            (tmp_path / "t.jsonl").unlink()
    Reader(["replay", str(file)], file, capsys).try_all(ANY)


def test_the_record_of_a_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A level or a violation left out would end in "holds"."""
    place = tmp_path / "record"
    words = ["check", "two-phase", "--set", "managers=2", "--without", "all-prepared", "--resume", str(place)]
    assert exit_of(*words) == Exit.VIOLATED
    capsys.readouterr()
    kept = {file.name: file.read_bytes() for file in place.iterdir()}

    def restore() -> None:
        for name, content in kept.items():
            (place / name).write_bytes(content)

    for name in sorted(kept):
        reader = Reader(words, place / name, capsys)
        reader.try_all({Exit.VIOLATED, Exit.BAD_REQUEST}, restore)
        restore()


def test_results_of_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is no result is listed as unread; the report is written all the same."""
    write_everything(tmp_path)
    out = tmp_path / "page.html"
    for name in ("found.json", "replay.json", "sim.json"):
        reader = Reader(["report", str(tmp_path), "--out", str(out)], tmp_path / name, capsys)
        for seed in range(examples(2, 300)):
            reader.file.write_bytes(changed(reader.whole, random.Random(seed)))
            code, printed, err = reader.run()
            assert code in ANY, (name, seed, printed, err)
            assert "Traceback" not in printed + err, (name, seed, err)
            assert out.exists() or code == Exit.BAD_REQUEST
        reader.file.write_bytes(reader.whole)


def test_defaults_in_pyproject(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pyproject.toml"
    file.write_text(
        '[project]\nname = "x"\n[tool.fencepost.check]\nmax-states = 1000\nset = ["managers=2"]\n'
        "no-deadlock = true\n"
    )
    Reader(["check", "two-phase"], file, capsys).try_all(ANY)


def test_points_of_an_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_INGEST_TOKEN", "abc.def")
    file = tmp_path / "points.jsonl"
    one = '{"name": "cpu.load", "labels": {"host": "a"}, "unix_ns": 17, "value": 0.5}\n'
    file.write_text(one * 3)
    words = ["ingest", "send", str(file), "--spool", str(tmp_path / "spool"), "--agent", "a"]
    words += ["--collector", "http://127.0.0.1:1", "--give-up-after", "0"]
    Reader(words, file, capsys).try_all(ANY)


def test_the_file_of_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens.json"
    assert exit_of("ingest", "enrol", str(file), "agent-a") == Exit.HOLDS
    assert exit_of("ingest", "enrol", str(file), "ops", "--operator") == Exit.HOLDS
    capsys.readouterr()
    whole = file.read_bytes()
    reader = Reader(["ingest", "enrol", str(file), "agent-b"], file, capsys)
    reader.try_all({Exit.HOLDS, Exit.BAD_REQUEST}, lambda: file.write_bytes(whole))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_of_a_catalog(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"file://{tmp_path}/store?linger_ms=0"
    assert exit_of("catalog", "init", url) == Exit.HOLDS
    file = tmp_path / f"person.{kind}"
    text = "id,name,born\n1,Ada,1815\n2,Bob,\n"
    file.write_text(text if kind == "csv" else '{"id": 1, "name": "Ada"}\n{"id": 2, "name": "Bob"}\n')
    capsys.readouterr()
    words = ["catalog", "put", url, f"person={file}", "--key", "id", "--author", "ann"]
    Reader(words, file, capsys).try_all(ANY)


@pytest.mark.parametrize("kind", ["json", "xml"])
def test_rules_of_a_lifecycle(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    buckets = Buckets(str(tmp_path / "root"))
    buckets.create("logs")
    buckets.close()
    file = tmp_path / f"rules.{kind}"
    file.write_text(json.dumps(RULES) if kind == "json" else XML)
    words = ["lifecycle", "put", str(tmp_path / "root"), str(file), "--bucket", "logs"]
    Reader(words, file, capsys).try_all(ANY)


@pytest.mark.parametrize("part", range(3))
def test_scenarios(part: int, tmp_path: Path) -> None:
    """Read, and laid out as points; a damaged one that can be read may take any time to run."""
    whole = list(shipped().values())[part].read_bytes()
    file = tmp_path / "mine.toml"
    messages: list[str] = []
    for seed in range(examples(20, 3_000)):
        file.write_bytes(changed(whole, random.Random(seed)))
        try:
            points(load(str(file)))
        except BadScenario as error:
            messages.append(str(error))
        except Exception as error:  # noqa: BLE001  named with its seed
            pytest.fail(f"seed {seed}: {error!r}")
    assert messages
    assert [text for text in messages if len(text.splitlines()) != 1] == []
