"""Two-phase commit for the other checkers: the machine of `model/textbook/two_phase.py`, state by state.

A `fault` is planted: `agreement`, a manager aborts although it has prepared; `deadlock`, nothing is repeated,
so that a run ends. A checker that judges what ours judges must report both.
"""

from pathlib import Path

TWO_PHASE = Path(__file__).parent / "tla" / "two_phase.tla"


def promela(managers: int, fault: str = "") -> str:
    """For SPIN: one process, every transition a `d_step`, so that its states are exactly the machine's.

    The invariant is an assertion at the end of every step, in the same `d_step`, so it costs no state; the
    initial state satisfies it. No label marks a valid end state, so a state without a next step is an error.
    """
    once = " && manager[{0}] < COMMITTED" if fault == "deadlock" else ""
    may_abort = "<= PREPARED" if fault == "agreement" else "== INIT"
    each = range(managers)
    clash = " || ".join(
        f"(manager[{m}] == COMMITTED && manager[{n}] == ABORTED)" for m in each for n in each if m != n
    )
    options = [
        f"d_step {{ decision == INIT && {' && '.join(f'prepared[{m}]' for m in each)} -> "
        "decision = COMMITTED; sent_commit = 1 }",
        "d_step { decision == INIT -> decision = ABORTED; sent_abort = 1 }",
    ]
    for m in each:
        options += [
            f"d_step {{ decision == INIT && sent_prepared[{m}]"
            f"{f' && !prepared[{m}]' if once else ''} -> prepared[{m}] = 1 }}",
            f"d_step {{ manager[{m}] == INIT -> manager[{m}] = PREPARED; sent_prepared[{m}] = 1 }}",
            f"d_step {{ manager[{m}] {may_abort} -> manager[{m}] = ABORTED }}",
            f"d_step {{ sent_commit{once.format(m)} -> manager[{m}] = COMMITTED }}",
            f"d_step {{ sent_abort{once.format(m)} -> manager[{m}] = ABORTED }}",
        ]
    body = "\n".join(f"  :: {option.removesuffix('}')}; assert(AGREEMENT) }}" for option in options)
    return f"""#define INIT 0
#define PREPARED 1
#define COMMITTED 2
#define ABORTED 3
#define AGREEMENT !({clash})
byte manager[{managers}];
byte decision;
bit prepared[{managers}];
bit sent_prepared[{managers}];
bit sent_commit;
bit sent_abort;
active proctype protocol() {{
  do
{body}
  od
}}
"""


def pan_options(managers: int) -> list[str]:
    """A hash table that fits the states, so that SPIN is measured at its best."""
    return ["-m100000", f"-w{26 if managers > 8 else 21}"]


def tla_module(fault: str = "") -> str:
    """For TLC: messages are a set, as TLA+ would have it."""
    text = TWO_PHASE.read_text()
    for plain, planted in _PLANTED.get(fault, ()):
        assert plain in text
        text = text.replace(plain, planted)
    return text


_WORKING = 'ChooseToAbort(m) == /\\ manager[m] = "working"'
_DECIDED = '/\\ manager[m] \\notin {"committed", "aborted"}'
_SENT = tuple(f'/\\ [kind |-> "{kind}"] \\in sent' for kind in ("commit", "abort"))
_PREPARED = '/\\ [kind |-> "prepared", by |-> m] \\in sent'
_PLANTED = {
    "agreement": ((_WORKING, _WORKING.replace('= "working"', '\\in {"working", "prepared"}')),),
    "deadlock": (
        (_PREPARED, f"{_PREPARED} /\\ m \\notin prepared"),
        *((sent, f"{sent} {_DECIDED}") for sent in _SENT),
    ),
}


def tla_config(managers: int) -> str:
    names = ", ".join(f"m{number}" for number in range(managers))
    return f"INIT Init\nNEXT Next\nINVARIANT Agreement\nCONSTANT Managers = {{{names}}}\n"
