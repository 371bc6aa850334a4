"""Run by `test_ingest`: one agent, alone in its process.

    python ingest_agent.py SPOOL AGENT TOKENFILE BATCHES COLLECTOR...

Adds BATCHES batches of three points to its spool and sends them while it adds, to whichever collector
answers. Prints what became of them, as JSON. An agent that is killed goes on where it was: SPOOL.added has a
line, durably, for each batch that its spool has taken.
"""

import hashlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

# Run as a script, so that the folder that holds `tests` is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fencepost.impl.ingest import Identity, Point, encode
from fencepost.impl.ingest.service.sending import Sender, Timeouts
from fencepost.impl.ingest.service.spool import Spool

POINTS = 3
METRIC = "test.value"
AT_NS = 1_760_000_000_000_000_000
AT_ONCE = 25


def frame(spool: Spool, number: int, start: int, end: int) -> bytes:
    """The points of batch `number`: their values differ in every sum."""
    values = range(number * POINTS, (number + 1) * POINTS)
    points = [Point(METRIC, {"agent": spool.agent_id}, AT_NS, float(value)) for value in values]
    return encode(Identity(spool.agent_id, spool.boot_id, start, end), points)


def main(folder: str, agent: str, token_file: str, batches: str, *collectors: str) -> None:
    timeouts = Timeouts(pause_s=0.02, pause_max_s=0.5, connect_s=5, answer_s=30)
    with Spool(folder, agent) as spool:
        sender = Sender(spool, collectors, Path(token_file).read_text().strip(), timeouts=timeouts)
        with Path(f"{folder}.added").open("a+") as added:
            added.seek(0)
            for number in range(len(added.readlines()), int(batches)):
                batch = spool.add(POINTS, lambda start, end, number=number: frame(spool, number, start, end))
                added.write(f"{hashlib.sha256(spool.frame(batch)).hexdigest()}\n")
                added.flush()
                if len(spool) >= AT_ONCE:
                    sender.drain()
        sent = sender.drain()
        sender.close()
        summary = {**asdict(sent), "agent": agent, "boot": spool.boot_id, "parked": len(spool.parked())}
    sys.stdout.write(f"{json.dumps(summary)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
