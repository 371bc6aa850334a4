"""How often, and after which pauses, one protocol sends a request again."""

from dataclasses import dataclass

from fencepost.impl.environment import Environment


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    actor: str
    """The random stream that shortens the pauses."""
    unavailable: type[Exception]
    """Raised when a request gets no answer in any attempt."""
    attempts: int = 6
    """How often a request is sent at most."""
    backoff_s: float = 0.1
    """The first pause between attempts; every further one is twice as long."""

    def back_off(self, env: Environment, attempt: int) -> None:
        """Pause after `attempt` (the first is 0): doubling, shortened by a random share of up to a half."""
        env.sleep(self.backoff_s * 2.0**attempt * (1 - env.stream(self.actor).random() / 2))
