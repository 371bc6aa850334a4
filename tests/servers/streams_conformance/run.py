"""Run the public conformance suite of the Durable Streams protocol against `fencepost streams serve`.

    python run.py WORK_DIRECTORY [STORE_URL]      # prints passed, failed, skipped; exit code 1 if one fails

The suite is the npm package `@durable-streams/server-conformance-tests`.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = "@durable-streams/server-conformance-tests"
TEST = f"""import {{ runConformanceTests }} from "{PACKAGE}"
runConformanceTests({{ baseUrl: process.env.CONFORMANCE_TEST_URL, longPollTimeoutMs: 5000 }})
"""


def main(work: Path, url: str) -> int:
    work.mkdir(parents=True, exist_ok=True)
    (work / "suite.test.mjs").write_text(TEST)
    if not (work / "node_modules").exists():
        subprocess.run(["npm", "install", "--silent", PACKAGE], cwd=work, check=True)
    serve = [sys.executable, "-m", "fencepost", "streams", "serve", url, "--listen", "127.0.0.1:0"]
    options = ["--skew", "0", "--landing", "1", "--sweep-every", "1", "--long-poll", "2"]
    with subprocess.Popen([*serve, *options], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None, "the server did not begin to listen"
            command = [
                "npx",
                "vitest",
                "run",
                "suite.test.mjs",
                "--reporter=json",
                "--outputFile=result.json",
            ]
            env = {**os.environ, "CONFORMANCE_TEST_URL": address[0]}
            subprocess.run([*command, "--testTimeout=60000"], cwd=work, env=env, check=False)
        finally:
            server.terminate()
    found = json.loads((work / "result.json").read_text())
    results = [one for file in found["testResults"] for one in file["assertionResults"]]
    lines = [f"failed: {one['fullName']}" for one in results if one["status"] == "failed"]
    counts = [found[f"num{kind}Tests"] for kind in ("Passed", "Failed", "Pending")]
    lines.append("{} passed, {} failed, {} skipped".format(*counts))
    sys.stdout.write("\n".join(lines) + "\n")
    return int(found["numFailedTests"] > 0)


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    raise SystemExit(main(directory, sys.argv[2] if len(sys.argv) > 2 else f"file://{directory / 'store'}"))
