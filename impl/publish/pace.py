"""The pauses of a writer that lost a race and begins again, until its time is over.

Many writers of one table can commit one after another only: while one commits, the attempts of the others
are in vain and slow it down. So each pauses for a random part of a window. The window doubles with each lost
race, until it is long enough for all of them, whatever their number. It is measured in attempts of this
writer, so it suits a store that answers in a millisecond and one that takes a second.

The window shrinks as the writer's time runs out, so those that have waited longest try most often.
"""

from fencepost.impl.environment import Environment

WAIT_S = 60.0
"""Seconds for which a writer begins again, unless its user says otherwise."""
ATTEMPT_S_MIN = 0.01
"""An attempt counts as at least so long."""
DOUBLINGS_MAX = 7
"""The widest window is 128 attempts long: our own limit."""
SHARE_MIN = 0.1
"""The smallest part of the window that remains at the end."""


class Pace:
    def __init__(self, env: Environment, wait_s: float) -> None:
        self._env = env
        self._wait_ns = round(wait_s * 1e9)
        self._began_ns = self._resumed_ns = env.monotonic_ns()
        self.attempts = 0

    @property
    def left_s(self) -> float:
        """Seconds until the time is over."""
        return max(0.0, (self._began_ns + self._wait_ns - self._env.monotonic_ns()) / 1e9)

    def pause(self) -> bool:
        """Pause after an attempt that failed; False, at once, if the time for another one is over."""
        now_ns = self._env.monotonic_ns()
        waited_ns = now_ns - self._began_ns
        attempt_s = max(ATTEMPT_S_MIN, (now_ns - self._resumed_ns) / 1e9)
        self.attempts += 1
        if waited_ns >= self._wait_ns:
            return False
        window_s = attempt_s * 2.0 ** min(self.attempts, DOUBLINGS_MAX)
        window_s *= max(SHARE_MIN, 1 - waited_ns / self._wait_ns)
        self._env.sleep(min(self.left_s, window_s * self._env.stream("pace").random()))
        self._resumed_ns = self._env.monotonic_ns()
        return True
