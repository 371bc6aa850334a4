"""The argument of one call of the compiled text: the same fields in C and here, 64 bits each."""

import ctypes

C_TEXT = """\
typedef struct {
    i64 at, end, stride, room, made, keep_all, recent_bits;
    const u64 *states;
    u64 *out, *recent;
    i64 *origins;
    u8 *alive;
    i64 *fired;
    u64 *bad;
    const u64 *target;
} Job;
"""


class Job(ctypes.Structure):
    """States from `at` to `end`; `room` for successors in `out`, of which `made` are there, with their rows
    in `origins` if that is given."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("at", "end", "stride", "room", "made", "keep_all", "recent_bits")
        ),
        *(
            (name, ctypes.c_void_p)
            for name in ("states", "out", "recent", "origins", "alive", "fired", "bad", "target")
        ),
    ]
