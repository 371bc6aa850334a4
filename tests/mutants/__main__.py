"""Run the campaign: exit code 0 without a survivor, 1 with one, 3 if it was stopped."""

import argparse
import signal
import sys
from collections.abc import Sequence

import tests.mutants as package
from tests.mutants.areas import AREAS
from tests.mutants.campaign import (
    LEAST,
    SEED,
    SHARE,
    Campaign,
    Judged,
    Mistake,
    choose,
    equivalents,
    refreshed,
    stale,
    survivors,
    table,
)
from tests.mutants.rules import ROOT


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tests.mutants", description=package.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--area", action="append", choices=[*AREAS], help="one area; may be repeated")
    parser.add_argument("--only", default="", metavar="TEXT", help="every mutant whose key has this text")
    parser.add_argument(
        "--share", type=float, default=SHARE, help=f"of each file's mutants (default {SHARE})"
    )
    parser.add_argument(
        "--least", type=int, default=LEAST, help=f"of each file, if so many (default {LEAST})"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--all", action="store_true", help="every mutant of every file")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=2, help="mutants at a time (default 2)")
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and stop")
    options = parser.parse_args(arguments)
    chosen = choose(
        options.area or [*AREAS],
        share=1.0 if options.all else options.share,
        least=options.least,
        seed=options.seed,
        only=options.only,
    )
    every = [each for some in chosen.values() for each in some]
    if options.list:
        sys.stdout.writelines(f"{each.path}:{each.line}: {each.key}\n" for each in every)
        sys.stdout.write(f"{len(every)} mutants\n")
        return 0
    known = equivalents()
    if old := stale(known):
        sys.stderr.write("\n".join(["equivalent.toml lists mutants that no longer exist:", *old, ""]))
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the tests that run, as Ctrl-C does
    campaign = Campaign(ROOT / "out" / "mutants.json", known=known)
    shown = 0

    def show(judged: Judged) -> None:
        nonlocal shown
        shown += 1
        sys.stdout.write(
            f"{shown:4} {judged.verdict:10} {judged.seconds:6.1f} s  {judged.key}  {judged.reason}\n"
        )
        sys.stdout.flush()

    try:
        found, complete = campaign.run(chosen, jobs=options.jobs, show=show)
    except Mistake as mistake:
        sys.stderr.write(f"{mistake}\n")
        return 2
    found = refreshed(found, every)
    sys.stdout.write("\n".join(["", *table(found), *survivors(found), ""]))
    if not complete:
        sys.stdout.write("stopped: the same command continues\n")
        return 3
    return 1 if any(each.verdict == "survived" for each in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
