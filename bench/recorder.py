"""Measure what `fencepost.record` costs a program on boto3: processor time of a call with it and without.

    python -m bench.recorder [--rounds 60] [--calls 12]

The server is ours, in a process of its own. Short rounds with and without alternate in one process, each
first in every other pair, and the median of the ratios counts; each round writes, reads and lists. Bar: at
most 5 % more processor time a call. A busy machine makes the ratio vary by some hundredths.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251  measured as users use it
from botocore.config import Config  # noqa: TID251  as above

import fencepost
from bench.report import median, write
from fencepost.impl.objects.credentials import Credentials

BAR = 1.05
TOKEN = "bench" * 8
BODY = b'{"state": "claimed", "attempt": 1}' + b" " * 2000


def client(url: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="root",
        aws_secret_access_key=Credentials(TOKEN).secret("root"),
        config=Config(s3={"addressing_style": "path"}),
    )


def spent(s3: Any, calls: int) -> float:
    """Processor seconds of this process for a call."""
    began = time.process_time()
    for number in range(calls):
        s3.put_object(Bucket="bench", Key=f"claims/{number}", Body=BODY)
        s3.get_object(Bucket="bench", Key=f"claims/{number}")["Body"].read()
        s3.list_objects_v2(Bucket="bench", Prefix="none/")
    return (time.process_time() - began) / (3 * calls)


def pair(plain: Any, recorded: Any, calls: int, number: int) -> tuple[float, float]:
    """Processor seconds of a call without and with the recorder; the second one is first in odd pairs."""
    if number % 2:
        later = spent(recorded, calls)
        return spent(plain, calls), later
    return spent(plain, calls), spent(recorded, calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--calls", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fencepost", "objects", "serve", f"{folder}/data"]
        environment = {**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": TOKEN}
        with subprocess.Popen(  # noqa: S603  this program
            [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, env=environment
        ) as server:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("listening on ").strip()
            plain, recorded = client(url), client(url)
            plain.create_bucket(Bucket="bench")
            recorder = fencepost.record(
                recorded, Path(folder, "traces"), process="bench", fields={"claims/.+": ("state", "attempt")}
            )
            spent(plain, 20), spent(recorded, 20)
            pairs = [pair(plain, recorded, options.calls, number) for number in range(options.rounds)]
            recorder.close()
            server.terminate()
    without, with_it = median([one for one, _ in pairs]), median([other for _, other in pairs])
    ratio = median([other / one for one, other in pairs])
    result = {
        "without_us": round(1e6 * without, 1),
        "with_us": round(1e6 * with_it, 1),
        "ratio": round(ratio, 3),
        "bar": BAR,
        "load": os.getloadavg()[0],
        "met": ratio <= BAR,
    }
    write("recorder", result)
    sys.stdout.write(f"{result}\n")


if __name__ == "__main__":
    main()
