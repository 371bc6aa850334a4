"""The C text of a machine: one function a label, one a property, and what they share.

    find      the first label that leads to a given state, and the first state from which it does
    expand    the successors of some states by all compiled labels, in blocks of states: label by label, so
              that the branches of a block go the same way and its states stay in the nearest cache
    first_N   the first of some states in which a property is true, or false
    thin      many narrow levels at once, see thin.py

Successors are written one after the other; sets are made of them later, as of those of NumPy. A successor
that equals its own state is left out, for that one has been visited. So is one that was written shortly
before: `recent` holds the last one for each value of a hash, and compares whole states.

Every variable has the type that NumPy gives it, whole numbers wrap around (`-fwrapv`), and a shift by 64 or
more gives what it gives there: the text has NumPy's meaning even in branches whose value nobody looks at.
"""

from collections.abc import Iterable, Mapping, Sequence

from fencepost.model.kernel.compiled import job, thin
from fencepost.model.kernel.compiled.trace import Node, Program

_TYPES = {"bool": "u8", "uint8": "u8", "int64": "i64", "uint64": "u64"}
_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_BLOCK = 256
"""States that all labels work on before the next ones."""

SHARED = """\
#include <stdint.h>
#include <stdlib.h>
typedef uint64_t u64;
typedef int64_t i64;
typedef uint8_t u8;

@JOB@
static inline u64 shift_left_u64(u64 a, u64 by) { return by < 64 ? a << by : 0; }
static inline u64 shift_right_u64(u64 a, u64 by) { return by < 64 ? a >> by : 0; }
static inline i64 shift_left_i64(i64 a, u64 by) { return by < 64 ? (i64)((u64)a << by) : 0; }
static inline i64 shift_right_i64(i64 a, u64 by) { return by < 64 ? a >> by : -(a < 0); }
static inline i64 floor_divide_i64(i64 a, i64 by) { return a / by - (a % by < 0); }
static inline i64 remainder_i64(i64 a, i64 by) { i64 rest = a % by; return rest < 0 ? rest + by : rest; }
static inline u64 mix(u64 a) { /* as in keys.py */
    a = (a ^ a >> 33) * 0xFF51AFD7ED558CCDu;
    a = (a ^ a >> 33) * 0xC4CEB9FE1A85EC53u;
    return a ^ a >> 33;
}
static inline u8 count_bits(u64 a) {
    a -= a >> 1 & 0x5555555555555555u;
    a = (a & 0x3333333333333333u) + (a >> 2 & 0x3333333333333333u);
    return (u8)(((a + (a >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}
"""

_SUCCESSOR = """\
static @ int successor(Job *job, i64 row, i64 label, const u64 *before, const u64 *after) {
    if (job->target) {
        for (int k = 0; k < WORDS; k++) if (after[k] != job->target[k]) return 0;
        job->at = row;
        job->made = label;
        return 2;
    }
    if (job->alive) job->alive[row] = 1;
%(steps)s
    if (!job->keep_all) {
        u64 differ = 0, mixed = 0;
        for (int k = 0; k < WORDS; k++) {
            differ |= before[k] ^ after[k];
            mixed = (mixed ^ after[k]) * 0x9E3779B97F4A7C15u;
            if (WORDS > 1) mixed ^= mixed >> 29;
        }
        if (!differ) return 0;
        u64 *recent = job->recent + (mixed >> (64 - job->recent_bits)) * WORDS;
        differ = 0;
        for (int k = 0; k < WORDS; k++) {
            differ |= recent[k] ^ after[k];
            recent[k] = after[k];
        }
        if (!differ) return 0;
    }
    if (job->origins) job->origins[job->made] = row;
    for (int k = 0; k < WORDS; k++) job->out[k * job->room + job->made] = after[k];
    job->made++;
    return 0;
}
"""

_JUDGE_STEP = """\
    if (job->bad) {{
        u64 *bad = job->bad + {number} * (2 + 2 * WORDS);
        int judged = step_{number}(before, after);
        if (judged == 2) return 1;
        if (judged == 0 && (i64)bad[0] > row) {{
            bad[0] = (u64)row;
            bad[1] = (u64)label;
            for (int k = 0; k < WORDS; k++) {{ bad[2 + k] = before[k]; bad[2 + WORDS + k] = after[k]; }}
        }}
    }}"""


def c_text(
    words: int, labels: Mapping[int, Sequence[Program]], truths: Iterable[Program], steps: Iterable[Program]
) -> str:
    """The text for some labels, by number, and some properties of states and of steps."""
    judged = list(steps)
    most = max(labels, default=-1) + 1
    sizes = {"WORDS": words, "LABELS": most, "STEPS": len(judged), "NARROW": thin.WIDEST}
    parts = [f"#define {name} {size}\n" for name, size in sizes.items()]
    parts.append(SHARED.replace("@JOB@", job.C_TEXT))
    parts += [_step(number, each, words) for number, each in enumerate(judged)]
    inline = "inline" if words <= 2 and len(judged) <= 2 else "__attribute__((noinline))"
    calls = "\n".join(_JUDGE_STEP.format(number=number) for number in range(len(judged)))
    parts.append((_SUCCESSOR % {"steps": calls}).replace("@", inline))
    parts += [_label(number, each, words) for number, each in labels.items()]
    parts.append(_expand(labels))
    decided = [_first(number, each, words) for number, each in enumerate(truths)]
    parts += [*decided, _is_decided(len(decided)), thin.C_TEXT]
    return "\n".join(parts)


def _label(number: int, paths: Sequence[Program], words: int) -> str:
    before = ", ".join(f"w{k}" for k in range(words))
    leave = {"guard": "continue;", "trap": "return 1;"}
    if len(paths) == 1 and not any(kind in _BRANCHES for kind, _ in paths[0].checks):
        body = statements(paths[0], leave)
        after = "after[] = {" + ", ".join(variable(each) for each in paths[0].values) + "}"
    else:
        lines = [f"u64 next[{words}];", *_tree(paths, 0, set(), leave)]
        body = "\n".join(f"        {line}" for line in lines)
        after = "*after = next"
    return f"""\
static int label_{number}(Job *job, i64 from, i64 to) {{
    i64 fired = 0;
    for (i64 row = from; row < to; row++) {{
{_inputs("job->states", "job->stride", "row", words)}
{body}
        fired++;
        const u64 before[] = {{{before}}}, {after};
        int ended = successor(job, row, {number}, before, after);
        if (ended) return ended;
    }}
    if (job->fired) job->fired[{number}] += fired;
    return 0;
}}
"""


def _tree(paths: Sequence[Program], start: int, known: set[int], leave: Mapping[str, str]) -> list[str]:
    """The checks that all paths have in common, a branch, and what follows on both of its sides."""
    lines: list[str] = []
    first = paths[0]
    for place, (kind, truth) in enumerate(first.checks[start:], start + 1):
        lines += _settled([truth], known)
        if kind in _BRANCHES:
            lines.append(f"if ({variable(truth)}) {{")
            for side in _BRANCHES:
                there = [path for path in paths if path.checks[place - 1][0] == side]
                inner = _tree(there, place, set(known), leave) if there else ["continue;"]
                lines += [*(f"    {line}" for line in inner), "} else {" if side == "if" else "}"]
            return lines
        lines.append(f"if ({'!' if kind == 'guard' else ''}{variable(truth)}) {leave[kind]}")
    lines += _settled(first.values, known)
    return [*lines, *(f"next[{k}] = {variable(value)};" for k, value in enumerate(first.values))]


_BRANCHES = ("if", "unless")


def _expand(labels: Mapping[int, Sequence[Program]]) -> str:
    calls = "\n".join(f"        if (label_{number}(job, from, to)) return 1;" for number in labels)
    finds = "\n".join(
        f"    if ((found = label_{number}(job, 0, job->end))) return found;" for number in labels
    )
    return f"""\
int expand(Job *job) {{
    while (job->at < job->end) {{
        i64 from = job->at, most = (job->room - job->made) / {max(1, len(labels))};
        if (most < 1) break;
        if (most > {_BLOCK}) most = {_BLOCK};
        i64 to = job->end - from < most ? job->end : from + most;
{calls}
        job->at = to;
    }}
    return 0;
}}

int find(Job *job) {{
    int found;
{finds}
    return 0;
}}
"""


def _step(number: int, program: Program, words: int) -> str:
    inputs = "\n".join(
        f"    const u64 w{n} = {'before' if n < words else 'after'}[{n % words}];" for n in range(2 * words)
    )
    return f"""\
static int step_{number}(const u64 *before, const u64 *after) {{
{inputs}
{statements(program, {"guard": "return 2;", "trap": "return 2;"})}
    return {variable(program.values[0])};
}}
"""


def _first(number: int, program: Program, words: int) -> str:
    return f"""\
i64 first_{number}(const u64 *in, i64 stride, i64 rows, i64 wanted) {{
    i64 found = -1;
    for (i64 row = 0; row < rows; row++) {{
{_inputs("in", "stride", "row", words)}
{statements(program, {"guard": "return -2;", "trap": "return -2;"})}
        if (found < 0 && {variable(program.values[0])} == wanted) found = row;
    }}
    return found;
}}
"""


def _is_decided(truths: int) -> str:
    calls = "\n".join(
        f"    if (wanted[{n}] >= 0 && first_{n}(states, stride, rows, wanted[{n}]) != -1) return 1;"
        for n in range(truths)
    )
    return f"""\
static int is_decided(const u64 *states, i64 stride, i64 rows, const i64 *wanted) {{
{calls}
    return 0;
}}
"""


def _inputs(array: str, stride: str, row: str, words: int) -> str:
    return "\n".join(f"        const u64 w{k} = {array}[{k} * {stride} + {row}];" for k in range(words))


def statements(program: Program, leave: Mapping[str, str]) -> str:
    """The checks in their order, each after what it needs, and then the values."""
    lines: list[str] = []
    known: set[int] = set()
    for kind, truth in program.checks:
        lines += _settled([truth], known)
        lines.append(f"if ({'!' if kind == 'guard' else ''}{variable(truth)}) {leave[kind]}")
    lines += _settled(program.values, known)
    return "\n".join(f"        {line}" for line in lines)


def _settled(wanted: list[Node], known: set[int]) -> list[str]:
    """The expressions that these need and that are not known yet; operands have lower numbers."""
    missing: dict[int, Node] = {}
    open_ = list(wanted)
    while open_:
        node = open_.pop()
        if node.number not in known and node.number not in missing and node.operation not in _IN_PLACE:
            missing[node.number] = node
            open_ += [each for each in node.arguments if isinstance(each, Node)]
    known |= set(missing)
    return [
        f"const {_TYPES[node.dtype]} {variable(node)} = {_expression(node)};"
        for _, node in sorted(missing.items())
    ]


_IN_PLACE = ("input", "constant")


def variable(node: Node) -> str:
    if node.operation == "input":
        return f"w{node.arguments[0]}"
    if node.operation == "constant":
        return _constant(node)
    return f"v{node.number}"


def _constant(node: Node) -> str:
    value = node.arguments[0]
    assert isinstance(value, int)
    if node.dtype == "int64":
        return f"((i64){value % (1 << 64)}u)"
    return f"{value}u" if node.dtype == "uint64" else str(value)


def _expression(node: Node) -> str:
    kind = _TYPES[node.dtype]
    given = [variable(each) for each in node.arguments if isinstance(each, Node)]
    name = node.operation
    if name in _INFIX:
        return f"({kind})({given[0]} {_INFIX[name]} {given[1]})"
    if name == "invert":
        return f"!{given[0]}" if node.dtype == "bool" else f"({kind})~{given[0]}"
    if name in ("left_shift", "right_shift"):
        by = node.arguments[1]
        if isinstance(by, Node) and by.operation == "constant" and by.arguments[0] in range(64):
            # Of a signed number to the left as NumPy does it: the bits move, and the type is kept.
            return (
                f"({kind})((u64){given[0]} << {by.arguments[0]})"
                if name == "left_shift"
                else (f"({kind})({given[0]} >> {by.arguments[0]})")
            )
        return f"shift_{name.removesuffix('_shift')}_{kind}({given[0]}, (u64){given[1]})"
    if name in ("maximum", "minimum"):
        return f"{given[0]} {'>' if name == 'maximum' else '<'} {given[1]} ? {given[0]} : {given[1]}"
    if name in ("floor_divide", "remainder"):
        if kind == "u64":
            return f"{given[0]} {'/' if name == 'floor_divide' else '%'} {given[1]}"
        return f"{name}_{kind}({given[0]}, {given[1]})"
    if name == "bitwise_count":
        argument = node.arguments[0]
        assert isinstance(argument, Node)
        negative = f"{given[0]} < 0 ? -(u64){given[0]} : " if argument.dtype == "int64" else ""
        return f"count_bits({negative}(u64){given[0]})"
    if name == "where":
        return f"{given[0]} ? {given[1]} : {given[2]}"
    if name == "table":
        place, *entries = given
        return f"(u64){place} < {len(entries)} ? ((const {kind}[]){{{', '.join(entries)}}})[{place}] : 0"
    assert name == "cast", name
    return f"({kind}){given[0]}"
