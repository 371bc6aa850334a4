"""Runs every driver, and prints the table of README.md: `nox -s packages`, or with names `nox -s packages -- s3path_touch`.

Exits with 1 if a verdict is another than in README.md.
"""

import ast
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests import outcomes

HERE = Path(__file__).parent
BUDGET_S = 120  # for one driver
SAMPLED_S = 60  # for one that samples schedules, and ends no sooner
HEADER = "| driver | package | version | promise | verdict | steps | bound or reason |\n|---|---|---|---|---|---|---|"


def drivers() -> list[Path]:
    return sorted(path for path in HERE.glob("*.py") if not path.name.startswith("_"))


def described(driver: Path) -> dict[str, str]:
    """The constants of a driver, and its first line as `promise`, without importing the package."""
    module = ast.parse(driver.read_text())
    constants = {
        node.targets[0].id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    return constants | {"promise": (ast.get_docstring(module) or "").strip()}


def audit(driver: Path) -> dict:
    """The result of `fencepost audit`. The log of the package is dropped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        says = described(driver)
        over_http = says.get("OVER_HTTP", False)
        command = [sys.executable, "-W", "ignore", "-m", "fencepost", "audit", f"{driver}:program", "--quiet"]
        command += ["--faults", says["FAULTS"], "--json", str(report)]
        command += ["--over-http", "--budget", str(SAMPLED_S)] if over_http else ["--budget", str(BUDGET_S)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(f"{driver.name}: the audit did not end\n{done.stdout}{done.stderr[-2000:]}")
        return json.loads(report.read_text())


def row(driver: Path) -> str:
    says, result = described(driver), audit(driver)
    found = result["violations"][0] if result["violations"] else None
    cells = [
        f"[{driver.stem}]({driver.name})",
        says["PACKAGE"],
        version(says["PACKAGE"]),
        f"{says['promise']} ({says['PLACE']})",
        result["verdict"],
        str(len(found["counterexample"]) - 1) if found else "",  # without the line of the property
        f"{found['property']}: {found['reason']}" if found else result["bound"],
    ]
    return f"| {' | '.join(cells)} |"


def verdicts(table: str) -> dict[str, str]:
    """The verdict of each driver in a table."""
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| [")]
    return {cells[0].split("]")[0].removeprefix("| ["): cells[4] for cells in rows}


def main(names: list[str]) -> int:
    expected = verdicts((HERE / "README.md").read_text())
    print(HEADER)
    made = {}
    for driver in drivers():
        if not names or driver.stem in names:
            made[driver.stem] = row(driver)
            print(made[driver.stem], flush=True)
    found = verdicts("\n".join(made.values()))
    other = [name for name, verdict in found.items() if verdict != expected.get(name)]
    for name in other:
        print(f"{name}: {found[name]}, and in README.md {expected.get(name)}")
    outcomes.record(len(found) - len(other), other)
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
