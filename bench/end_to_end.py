"""The end-to-end table: each system run for real with kills, recorded, and replayed by its model.

    python -m bench.end_to_end [--systems publish,ingest,...]

Each system runs as shipped, which its model must accept, and with planted mutants, which must be rejected at
the right event with the right reason. The runs take about ten minutes on two idle cores.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.report import write
from tests.servers.end_to_end import SYSTEMS, row

COLUMNS = ("system", "mutant", "verdict", "runs", "accepted", "rejected", "undecided", "events", "left_out")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    options = parser.parse_args()
    rows = []
    for system in options.systems.split(","):
        for planted in (None, *SYSTEMS[system].planted):
            with tempfile.TemporaryDirectory(prefix=f"end-to-end-{system}-") as folder:
                found = row(system, Path(folder), planted)
            rows.append(found)
            cells = [str(found[name]) for name in (*COLUMNS, "continuity", "as_expected")]
            sys.stdout.write(
                f"| {' | '.join(cells)} |\n    {found['event'][:160]}\n    {found['reason'][:200]}\n"
            )
            sys.stdout.flush()
    write("end-to-end", {"rows": rows, "as_expected": all(found["as_expected"] for found in rows)})
    return 0 if all(found["as_expected"] for found in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
