"""What a stranger may type: each is refused in one line that names the cause, with exit code 2.

The folder holds files that are empty, bytes, zeros, nested too deep, not UTF-8; folders with the names of
files; links to nowhere. `UNREADABLE` cannot be read even by root.
"""

import os
import shlex
from pathlib import Path

import pytest

from tests.commands.running import exit_of

UNREADABLE = "/proc/self/mem"
ENDINGS = ("py", "toml", "json", "csv", "parquet", "jsonl")

CASES = """
check nosuch
check two-phase --set managers=x
check two-phase --set managers=99999999999999999999
check two-phase --set =3
check two-phase --max-states 0
check two-phase --max-states 1.5
check two-phase --memory -5G
check two-phase --memory 1e5
check two-phase --walks 5 --steps 0
check two-phase --json d
check two-phase --json /proc/x.json
check two-phase --json nowhere/x.json
check two-phase --json ''
check two-phase --resume bytes
check two-phase extra
check empty.py:M
check bytes.py:M
check zeros.py:M
check d.py:M
check syntax.py:M
check raises.py:M
check exits.py:M
check link.py:M
check nowhere.py:M
zoo nosuch
zoo two-phase --max-states 0
zoo --programs two-phase --budget nan
audit nosuch
audit counter --mutant ''
audit counter --faults crash=-1
audit counter --faults x=1
audit counter --seed -1
audit counter --budget 0
audit counter --budget nan
audit counter --budget inf
audit counter --replay x
audit counter --replay ''
audit counter --resume bytes
audit counter --resume deep.json
audit counter --resume empty
audit counter --resume d
audit counter --trace /proc/x.json
audit counter --flat processes=1
audit counter --store nosuch
audit counter --store file://
audit counter --rounds 5
audit counter --jobs 2 --strategy random
audit bytes.py:f
audit d.py:f
audit exits.py:f
audit program.py:nosuch
audit program.py:later
probe nosuch
probe file://
probe s3://
probe memory:// --budget nan
probe memory:// --budget 0
probe memory:// --seed -1
probe memory:// --only nosuch
probe memory:// --profile d
probe memory:// --quick --thorough
simulate nosuch
simulate empty.toml
simulate bytes.toml
simulate zeros.toml
simulate deep.toml
simulate d.toml
simulate link.toml
simulate UNREADABLE
simulate cap-tail --sweep x
simulate cap-tail --sweep store.in_flight=
simulate cap-tail --sweep store.in_flight=-1
simulate cap-tail --jobs 0
simulate cap-tail --out bytes
simulate cap-tail --out /proc/x
report nowhere
report bytes
report d
report UNREADABLE
replay nowhere --model publish
replay d --model publish
replay bytes --model nosuch
replay bytes --model syntax.py:C
replay bytes --model publish --runs (
replay bytes --model publish --runs prefix:0
replay bytes --model publish --set writers=x
replay bytes --model publish --out bytes
replay bytes --from access-log --layout deep.toml
replay bytes --from access-log --layout bytes.toml
replay bytes --from access-log --layout d.toml
replay bytes --from access-log --layout publish
replay UNREADABLE --from access-log --layout publish
proxy nosuch
proxy http://
proxy http://127.0.0.1:1 --listen x
proxy http://127.0.0.1:1 --listen 127.0.0.1:99999
proxy http://127.0.0.1:1 --latency x
proxy http://127.0.0.1:1 --throttled 200%
proxy http://127.0.0.1:1 --body-max x
proxy http://127.0.0.1:1 --budget nan
catalog nosuch
catalog init nosuch
catalog init FILE/bytes
catalog init file:///proc/x
catalog log FILE/nowhere
objects serve bytes --listen 127.0.0.1:0
objects serve UNREADABLE --listen 127.0.0.1:0
objects serve /proc/x --listen 127.0.0.1:0
objects serve d --listen x
objects serve d --drain-timeout nan
objects serve d --tls-certificate bytes
objects serve d --tls-certificate bytes --tls-key bytes
objects serve d --root-token-file bytes
objects serve d --root-token-file d
objects serve
objects serve x --memory
objects serve x --quirk weak-etags
objects serve x --fault-script empty
objects serve --memory --workers 2
objects serve --memory --quirk nosuch
objects serve --memory --as nosuch
objects serve --memory --fault-script nowhere
objects serve --memory --fault-script bytes
objects serve --memory --fault-script deep.json
objects serve --memory --fault-script d
objects serve --memory --fault-trace /proc/x
objects serve --memory --bucket X --listen 127.0.0.1:0
objects supervise bytes --listen 127.0.0.1:0
objects reconcile nowhere
objects handoff bytes
ingest serve --store x --agents empty.json
ingest serve --store FILE/d --agents deep.json
ingest serve --store FILE/d --agents d
ingest serve --store FILE/d --agents bytes --body-timeout nan
ingest enrol deep.json agent
ingest enrol new.json ''
ingest send --spool bytes --agent a --collector http://127.0.0.1:1
ingest send --spool spool --agent a --collector nosuch
ingest send --spool spool --agent a --collector http://127.0.0.1:1 --give-up-after nan
ingest send --spool spool --agent a --collector http://127.0.0.1:1 --spool-max 0
ingest send --spool spool --agent a --collector http://127.0.0.1:1 --metrics d
ingest send bytes --spool spool --agent a --collector http://127.0.0.1:1
ingest send UNREADABLE --spool spool --agent a --collector http://127.0.0.1:1
ingest gc --store FILE/d --horizon nan
ingest reconcile --store FILE/nowhere
ingest reconcile --store FILE/d --every nan
ingest maintenance --store FILE/d --search-every nan
ingest parked --spool nowhere
ingest policy x --gc-role y
completion nosh
demo --out bytes
demo --json d
nosuch
--nosuch
""".strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stranger")
    contents = {"empty": b"", "bytes": bytes(range(256)) * 4, "zeros": b"\0" * 100, "deep": b"[" * 100_000}
    for name, content in contents.items():
        for ending in ("", *(f".{ending}" for ending in ENDINGS)):
            (made / f"{name}{ending}").write_bytes(content)
    (made / "deep.toml").write_text(f"a={'[' * 3000}{']' * 3000}")
    for ending in ("", *(f".{ending}" for ending in ENDINGS)):
        (made / f"d{ending}").mkdir()
    for ending in ("py", "toml"):
        (made / f"link.{ending}").symlink_to("nowhere")
    (made / "syntax.py").write_text("def f(:\n")
    (made / "raises.py").write_text('raise ValueError("no")\n')
    (made / "exits.py").write_text("import sys; sys.exit(0)\n")
    (made / "program.py").write_text("async def later(world): pass\n")
    return made


@pytest.mark.parametrize("line", CASES)
def test_bad_input_is_one_line_and_exit_code_2(
    folder: Path, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FENCEPOST_OBJECTS_ROOT_TOKEN", "x" * 40)
    monkeypatch.setenv("FENCEPOST_INGEST_TOKEN", "abc.def")
    words = [
        word.replace("UNREADABLE", UNREADABLE).replace("FILE/", f"file://{folder}/")
        for word in shlex.split(line)
    ]
    if UNREADABLE in words and not os.path.exists(UNREADABLE):  # noqa: PTH110 - a file of Linux
        pytest.skip("no file that nobody can read")
    code = exit_of(*words)
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1), printed
    assert printed.err.startswith("fencepost: ")
    assert "Traceback" not in printed.err
    assert "integer range" not in printed.err
