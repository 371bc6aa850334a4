"""The public conformance suite of the Durable Streams protocol against `fencepost streams serve`.

    python -m tests.servers.streams_conformance WORK_DIRECTORY [--stores file,objects,seaweedfs]
                                                [--access open,tokens]

Runs the npm package `@durable-streams/server-conformance-tests` on each store, and on each once without
tokens and once with them, and prints a table. Exit code 1 if a test fails, is skipped for a reason that is
not known here, or does not run. Everything listens on 127.0.0.1 and is stopped at the end. Downloads from
npm.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import RIGHTS, Holder, grants_file
from tests import outcomes

from .streams_fleet import STORES, nodes, store

PACKAGES = ("@durable-streams/server-conformance-tests@0.3.6", "@durable-streams/client@0.2.7")
TESTS_MIN = 300
"""A run with fewer tests is not the suite."""
SKIPS = {
    "Reserved subscription APIs": "sections 6 and 7 of the protocol are optional: the suite tests them only "
    "when `subscriptions` is set, and the specification of this server leaves them out",
}
"""Why a group of tests does not run, by the beginning of their names."""
TEST = """const token = process.env.CONFORMANCE_TEST_TOKEN
const plain = globalThis.fetch
if (token) {  // the suite knows of none: every request of it, and of the client that it uses, gets the header
  globalThis.fetch = (input, init = {}) => {
    const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined))
    headers.set("authorization", `Bearer ${token}`)
    return plain(input, { ...init, headers })
  }
}
const { runConformanceTests } = await import("@durable-streams/server-conformance-tests")
runConformanceTests({ baseUrl: process.env.CONFORMANCE_TEST_URL, longPollTimeoutMs: 5000 })
"""
OPTIONS = ("--skew", "0", "--landing", "1", "--sweep-every", "1", "--long-poll", "2")


@dataclass
class Results:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """By reason; without one by name, which counts as failed."""

    @property
    def ok(self) -> bool:
        return not self.failed and set(self.skipped) <= set(SKIPS.values()) and self.passed >= TESTS_MIN


def packages(work: Path) -> None:
    """The npm packages of the protocol, in this directory."""
    work.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES]
    subprocess.run(command, cwd=work, check=True, stderr=subprocess.DEVNULL)


def run(work: Path, address: str, token: str = "") -> Results:
    """The suite against one server, with a token."""
    (work / "suite.test.mjs").write_text(TEST)
    result = work / "result.json"
    result.unlink(missing_ok=True)  # that of another run is no result of this one
    command = ["npx", "vitest", "run", "suite.test.mjs", "--reporter=json", f"--outputFile={result}"]
    subprocess.run(
        [*command, "--testTimeout=60000"], cwd=work, env={**os.environ, "CONFORMANCE_TEST_URL": address,
        "CONFORMANCE_TEST_TOKEN": token}, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return read(result.read_text() if result.exists() else "")


def read(text: str) -> Results:
    """What vitest's JSON reporter wrote."""
    found = Results()
    if not text:
        found.failed.append("the suite did not run")
        return found
    for file in json.loads(text)["testResults"]:
        if file["status"] != "passed" and not file["assertionResults"]:
            found.failed.append(file.get("message") or "a file of tests could not be loaded")
        for one in file["assertionResults"]:
            name = one["fullName"]
            if one["status"] == "passed":
                found.passed += 1
            elif one["status"] == "failed":
                found.failed.append(name)
            else:
                found.skipped[
                    next((why for start, why in SKIPS.items() if name.startswith(start)), name)
                ] += 1
    return found


def table(results: dict[str, Results]) -> str:
    lines = ["| store | passed | failed | skipped |", "|---|---|---|---|"]
    for name, found in results.items():
        lines.append(f"| {name} | {found.passed} | {len(found.failed)} | {found.skipped.total()} |")
    for name, found in results.items():
        lines += [f"{name}: failed: {test}" for test in found.failed]
        lines += [f"{name}: skipped {count}: {why}" for why, count in found.skipped.items()]
        if found.passed < TESTS_MIN:
            lines.append(f"{name}: only {found.passed} tests passed; the suite has more than {TESTS_MIN}")
    return "\n".join(lines)


def enrolled(file: Path) -> tuple[str, tuple[str, ...]]:
    """A token that may do everything, and the options of a server that knows it."""
    holder = Holder("suite", (("/", frozenset(RIGHTS)),))
    return grants_file(file, "").enrol(holder, SystemEnvironment()), ("--tokens", str(file))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--access", default="open,tokens")
    options = parser.parse_args()
    work = options.work.absolute()
    packages(work)
    results = {}
    for name in options.stores.split(","):
        for access in options.access.split(","):
            folder = work / f"store-{name}-{access}-{os.getpid()}"
            folder.mkdir()
            token, more = enrolled(folder / "tokens.json") if access == "tokens" else ("", ())
            with store(name, folder / "data") as url, nodes(url, folder, 1, *OPTIONS, *more) as made:
                results[f"{name}, {access}"] = run(work, made.addresses[0], token)
    sys.stdout.write(table(results) + "\n")
    for name, found in results.items():
        failed = [*found.failed, *(set(found.skipped) - set(SKIPS.values()))]
        skipped = {why: count for why, count in found.skipped.items() if why in SKIPS.values()}
        outcomes.record(found.passed, [f"{name}: {test}" for test in failed], skipped)
    return int(not all(one.ok for one in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
