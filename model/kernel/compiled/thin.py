"""Many narrow levels in one call: a deep space has levels of a few states, and each costs Python and NumPy
far more than its states.

The C text goes from level to level as the search does: successors by the same functions, without visited
states, in the order of their keys. States found in this call are looked up in a hash table of keys, earlier
ones by bisection in the sorted runs. It ends *before* the level that needs more than that: one that is wide
or empty, in which a property is decided, a state without a successor, a violated step, a trap. The search
then takes that step itself. So here nothing is ever decided, and what is returned are complete levels.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.model.kernel.compiled.job import Job
from fencepost.model.kernel.language.layout import I64, U64

WIDEST = 1 << 8
"""States of a level that is narrow."""

_STATES = 1 << 15
"""States that one call finds at most."""

_RECENT_BITS = 8

C_TEXT = """\
/* As in thin.py. `rows` are those of the last level, at `at` of `states`; levels end at `ends`. */
typedef struct {
    i64 at, rows, stride, levels, most_levels, most_states, table_bits, runs, deadlocks;
    u64 *states;
    i64 *ends, *sizes, *wanted, *fired;
    u64 *table;
    const u64 **keys;
} Thin;

typedef struct { u64 key; i64 row; } Keyed;

static u64 key_of(const u64 *states, i64 stride, i64 row) {
    u64 mixed = states[row];
    if (WORDS > 1) mixed = mix(mixed);
    for (int k = 1; k < WORDS; k++) mixed = mix(mixed + states[k * stride + row]);
    return mixed;
}

static int was_visited(const Thin *thin, u64 key) {
    for (i64 run = thin->runs - 1; run >= 0; run--) {
        const u64 *keys = thin->keys[run];
        i64 low = 0, high = thin->sizes[run];
        while (low < high) {
            i64 middle = low + (high - low) / 2;
            if (keys[middle] < key) low = middle + 1;
            else high = middle;
        }
        if (low < thin->sizes[run] && keys[low] == key) return 1;
    }
    return 0;
}

static int by_key(const void *one, const void *other) {
    u64 a = ((const Keyed *)one)->key, b = ((const Keyed *)other)->key;
    return (a > b) - (a < b);
}

/* Returns 1 if it was not in the table. The first of two numbers of a place is 1 where one is. */
static int add(Thin *thin, u64 key) {
    u64 last = (1u << thin->table_bits) - 1, place = mix(key) & last;
    for (; thin->table[2 * place]; place = (place + 1) & last)
        if (thin->table[2 * place + 1] == key) return 0;
    thin->table[2 * place] = 1;
    thin->table[2 * place + 1] = key;
    return 1;
}

void thin(Thin *thin, Job *job, Keyed *order) {
    while (thin->levels < thin->most_levels) {
        i64 made = 0, next = thin->at + thin->rows;
        i64 space = thin->most_states - next;
        job->states = thin->states + thin->at;
        job->at = job->made = 0;
        job->end = thin->rows;
        for (i64 row = 0; row < thin->rows; row++) job->alive[row] = 0;
        for (i64 label = 0; label < LABELS; label++) job->fired[label] = 0;
        if (expand(job) || job->at < job->end) return;
        for (i64 row = 0; row < thin->rows; row++) if (thin->deadlocks && !job->alive[row]) return;
        for (i64 step = 0; step < STEPS; step++) {
            i64 row = (i64)job->bad[step * (2 + 2 * WORDS)];
            if (row != INT64_MAX && row != -1) return;
        }
        for (i64 row = 0; row < job->made; row++) {
            u64 key = key_of(job->out, job->room, row);
            if (was_visited(thin, key) || !add(thin, key)) continue;
            if (made == NARROW || made == space) return;
            order[made].key = key;
            order[made++].row = row;
        }
        if (!made) return;
        qsort(order, made, sizeof *order, by_key);
        for (int k = 0; k < WORDS; k++)
            for (i64 row = 0; row < made; row++)
                thin->states[k * thin->stride + next + row] = job->out[k * job->room + order[row].row];
        if (is_decided(thin->states + next, thin->stride, made, thin->wanted)) return;
        for (i64 label = 0; label < LABELS; label++) thin->fired[label] += job->fired[label];
        thin->at = next;
        thin->rows = made;
        thin->ends[thin->levels++] = next + made;
    }
}
"""


class Thin(ctypes.Structure):
    """As in the text."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in (
                *("at", "rows", "stride", "levels", "most_levels", "most_states", "table_bits", "runs"),
                "deadlocks",
            )
        ),
        *(
            (name, ctypes.c_void_p)
            for name in ("states", "ends", "sizes", "wanted", "fired", "table", "keys")
        ),
    ]


@dataclass(frozen=True)
class Levels:
    """Complete levels that follow one another: their states, where each ends, and how often labels fired."""

    states: U64
    ends: list[int]
    fired: I64


def narrow_levels(
    call: Any,
    level: U64,
    runs: Sequence[U64],
    *,
    labels: tuple[int, int],
    wanted: Sequence[int],
    bad: U64,
    deadlocks: bool,
    most_levels: int,
    most_states: int,
) -> Levels | None:
    """The levels after a narrow one; None if there is none that is complete and decides nothing.

    `labels` are how many there are, and how many are compiled; `wanted` is for each property of states the
    value that decides it, or -1; `bad` is for each step property as in the text.
    """
    words, rows = level.shape
    room = WIDEST * labels[1]
    states = np.empty((words, min(_STATES, rows + most_states)), np.uint64)
    states[:, :rows] = level
    ends = np.zeros(states.shape[1], np.int64)
    bits = (4 * states.shape[1] - 1).bit_length()
    table, order = np.zeros((1 << bits, 2), np.uint64), np.empty((WIDEST, 2), np.int64)
    out, alive = np.empty((words, room), np.uint64), np.empty(WIDEST, np.bool_)
    once, fired = np.zeros(labels[0], np.int64), np.zeros(labels[0], np.int64)
    recent = np.zeros((1 << _RECENT_BITS, words), np.uint64)
    recent[0] = level[:, 0]
    sizes = np.array([len(run) for run in runs], np.int64)
    pointers = np.array([run.ctypes.data for run in runs], np.uint64)
    decides = np.array([*wanted, -1], np.int64)
    job = Job(stride=states.shape[1], room=room, recent_bits=_RECENT_BITS)
    job.out, job.alive, job.fired = out.ctypes.data, alive.ctypes.data, once.ctypes.data
    job.recent, job.bad = recent.ctypes.data, bad.ctypes.data
    most_levels = min(most_levels, len(ends))
    thin = Thin(0, rows, states.shape[1], 0, most_levels, states.shape[1], bits, len(runs), deadlocks)
    thin.states, thin.ends, thin.sizes = states.ctypes.data, ends.ctypes.data, sizes.ctypes.data
    thin.wanted, thin.fired = decides.ctypes.data, fired.ctypes.data
    thin.table, thin.keys = table.ctypes.data, pointers.ctypes.data
    call(ctypes.byref(thin), ctypes.byref(job), order.ctypes.data)
    if not thin.levels:
        return None
    found = states[:, rows : thin.at + thin.rows].copy()
    return Levels(found, (ends[: thin.levels] - rows).tolist(), fired)
