"""Programs that ready promises find without a property of their own.

    python -m bench.promises                 # every row
    python -m bench.promises counter lock    # the rows whose name has one of these words

Every row is a broken program and its fix, audited with `--promises-only`, so that the properties which the
programs declare are not judged. The broken one must be found, and the fixed one must not be violated. The
table has the verdicts, the schedules and the seconds; the exit code is 1 when a row is not as it must be.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
TRIALS, PROMISED = "tests/trust/trials", "tests/trust/promised"
ZOO, EXAMPLES = "examples/zoo", "examples/audit"
NONE, PAUSE = ("--faults", "none"), ("--faults", "none,pause=1")
SECONDS = 60


class Row(NamedTuple):
    file: str
    broken: str
    fixed: str
    promise: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{Path(self.file).stem} {self.broken}"


def _zoo(name: str, promise: str) -> Row:
    return Row(f"{ZOO}/{name}.py", "broken", "fixed", promise)


def _trial(name: str, promise: str, *options: str, broken: str = "broken", fixed: str = "fixed") -> Row:
    return Row(f"{TRIALS}/{name}.py", broken, fixed, promise, options)


ROWS = (
    _trial("age_of_an_object", "manifest=meta", broken="a", fixed=""),
    _trial("age_of_the_lock", "register"),
    _trial("copy_onto_itself", "register"),
    _trial("dirty_for_ever", "gone=dirty/"),
    _trial("gives_up_waiting", "lock=lock", *NONE),
    _trial("grace_from_write", "references=head,grace=60", *PAUSE),
    _trial("partial_blocks", "manifest=B/meta.json"),
    _trial("renewal_thread", "register=lock", fixed=""),
    _trial("renewal_writes_back", "register", *NONE),
    _trial("shared_etag", "register", *NONE, broken="broken_upload"),
    _trial("sink_file_boundaries", "log=files/", "--faults", "none,crash=1"),
    _trial("stale_by_my_clock", "lock=lock/,ttl=1800,released=no", "--faults", "none,skew=1"),
    Row(f"{PROMISED}/adds_names.py", "broken", "fixed", "register"),
    Row(f"{PROMISED}/numbers_models.py", "broken", "fixed", "log=m/"),
    Row(f"{PROMISED}/takes_over_log.py", "broken", "fixed", "log=wal/,reader=new", NONE),
    Row(f"{PROMISED}/queue_program.py", "naive", "", "queue=jobs/", PAUSE),
    Row(f"{PROMISED}/queue_program.py", "given_up", "careful", "queue=jobs/", PAUSE),
    Row(f"{EXAMPLES}/boto3_counter.py", "mutant_read_modify_write", "fixed", "register"),
    Row(f"{EXAMPLES}/boto3_election.py", "mutant_check_then_create", "fixed", "register"),
    Row(f"{EXAMPLES}/boto3_lock.py", "mutant_lease_without_fence", "fixed", "register=book", PAUSE),
    Row(f"{EXAMPLES}/boto3_log.py", "mutant_own_record_taken_for_anothers", "fixed", "log=log/"),
    _zoo("ambiguous_commit_cleaned_up", "manifest=metadata/"),
    _zoo("check_then_put", "register"),
    _zoo("collector_lost_its_race", "manifest=log/MANIFEST,data=log/fragment-*"),
    _zoo("conflict_read_as_exists", "lock=jobs/nightly.lock,released=no"),
    _zoo("epoch_before_slot", "log=wal/,rising=epoch"),
    _zoo("fence_behind_boundary", "log=wal/,reader=new,reuse=yes"),
    _zoo("lease_expires_in_flight", "log=_delta_log/"),
    _zoo("manifest_id_reuse", "log=manifest/"),
    _zoo("manifest_without_token", "register"),
    _zoo("plain_put_log", "log=shard-0/wal/"),
    _zoo("proof_by_existence", "report=export/*.csv"),
    _zoo("retried_contention", "register"),
    _zoo("self_412", "lock=state.tflock"),
    _zoo("self_fence", "log=wal/"),
    _zoo("stale_etag_published", "references=latest"),
    _zoo("temp_deleted_after_reservation", "log=_delta_log/"),
    _zoo("watermark_after_manifest", "manifest=manifest,data=compacted/"),
    _zoo("zombie_slot", "log=wal/"),
)
MISSED = frozenset({"temp_deleted_after_reservation broken"})
"""No promise fits: a record says that an entry is complete, and the entry is not there."""


def audited(row: Row, function: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the JSON of one audit that judges the promise alone."""
    command = [sys.executable, "-m", "fencepost", "audit", f"{ROOT / row.file}:{function}", *row.options]
    command += ["--promise", row.promise, "--promises-only", "--budget", str(seconds), "--json", "-"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own command
    try:
        found: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        return {
            "verdict": "error",
            "schedules": 0,
            "seconds": 0.0,
            "bound": ended.stderr[-200:],
            "violations": [],
        }
    return found


def table(rows: Sequence[Row]) -> Iterator[tuple[Row, bool, str]]:
    """Yield each row, if it is as it must be, and its line."""
    for row in rows:
        cells, well = [], True
        for function in filter(None, (row.broken, row.fixed)):
            found = audited(row, function)
            cells.append(f"{found['verdict']} ({found['schedules']} schedules, {found['seconds']:.1f} s)")
            wanted = ("violated",) if function == row.broken else ("holds", "undecided")
            well = well and (found["verdict"] in wanted or (function == row.broken and row.name in MISSED))
        yield row, well, f"{row.name:<58} {row.promise:<44} {' | '.join(cells)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="words of the names of rows")
    words = parser.parse_args().words
    rows = [row for row in ROWS if not words or any(word in row.name for word in words)]
    started, good = time.perf_counter(), True
    for _, well, line in table(rows):
        sys.stdout.write(f"{'' if well else 'NOT AS IT MUST BE: '}{line}\n")
        sys.stdout.flush()
        good = good and well
    sys.stdout.write(f"{len(rows)} rows, {time.perf_counter() - started:.0f} s\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
