"""What the SDK's retries remember, kept apart for every process of every run.

Clients are made once and used in thousands of runs, by several processes. Three things inside of them would
carry over: the quota of the standard mode, the rate limiter of the adaptive mode, and the random numbers
that spread the waits. Each process gets its own, which a crash takes away like the rest of its memory.
"""

from typing import Any

from botocore.retries import adaptive, bucket, quota, standard, throttling

from fencepost.sim.boto.chance import stream
from fencepost.sim.boto.present import controlled, here, memory


class _Quota:
    """Stands for a `RetryQuota`: the asking process's own, or outside of a world the real one."""

    def __init__(self, real: quota.RetryQuota) -> None:
        self.real = real

    def _mine(self) -> quota.RetryQuota:
        world = here()
        return self.real if world is None else _own(world, self, quota.RetryQuota)

    def acquire(self, amount: int) -> bool:
        return bool(self._mine().acquire(amount))

    def release(self, amount: int) -> None:
        self._mine().release(amount)

    @property
    def available_capacity(self) -> int:
        return int(self._mine().available_capacity)


class _Limiter:
    """Stands for the adaptive mode's `ClientRateLimiter`."""

    def __init__(self, real: adaptive.ClientRateLimiter) -> None:
        self.real = real

    def _mine(self) -> adaptive.ClientRateLimiter:
        world = here()
        return self.real if world is None else _own(world, self, _limiter)

    def on_sending_request(self, request: Any, **kwargs: Any) -> None:
        self._mine().on_sending_request(request, **kwargs)

    def on_receiving_response(self, **kwargs: Any) -> None:
        self._mine().on_receiving_response(**kwargs)


def _own(world: Any, owner: Any, make: Any) -> Any:
    known = memory(world)
    found = known.get(owner)
    if found is None:
        found = known[owner] = make()
    return found


def _limiter() -> adaptive.ClientRateLimiter:
    """As `adaptive.register_retry_handler` makes it."""
    clock = bucket.Clock()
    return adaptive.ClientRateLimiter(
        rate_adjustor=throttling.CubicCalculator(starting_max_rate=0, start_time=clock.current_time()),
        rate_clocker=adaptive.RateClocker(clock),
        token_bucket=bucket.TokenBucket(max_rate=1, clock=clock),
        throttling_detector=standard.ThrottlingErrorDetector(
            retry_event_adapter=standard.RetryEventAdapter()
        ),
        clock=clock,
    )


def _spread(real: Any) -> Any:
    return lambda: real() if controlled() is None else stream().random()


def keep_apart(events: Any) -> None:
    """Replace what the retries of one client remember. Does nothing when that was done before."""
    handlers = _handlers(events, "needs-retry.s3.PutObject") + _handlers(events, "before-send.s3.PutObject")
    for handler in handlers:
        owner = getattr(handler, "__self__", None)
        if isinstance(owner, standard.RetryHandler):
            checker = owner._retry_quota
            if not isinstance(checker._quota, _Quota):
                checker._quota = _Quota(checker._quota)
                backoff = owner._retry_policy._retry_backoff
                backoff._random = _spread(backoff._random)
        elif isinstance(owner, adaptive.ClientRateLimiter):
            _stand_for(events, owner)


def _stand_for(events: Any, real: adaptive.ClientRateLimiter) -> None:
    limiter = _Limiter(real)
    events.unregister("before-send", real.on_sending_request)
    events.unregister("needs-retry", real.on_receiving_response)
    events.register("before-send", limiter.on_sending_request)
    events.register("needs-retry", limiter.on_receiving_response)


def _handlers(events: Any, name: str) -> list[Any]:
    emitter = getattr(events, "_emitter", events)
    return list(emitter._handlers.prefix_search(name))
