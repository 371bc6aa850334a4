"""An error in a scenario, and its place: the one error that users of scenario files meet."""


class BadScenario(Exception):
    """One sentence that begins with the place: file and line."""


class BadValue(Exception):
    """An error in one value, as a clause; the caller that knows its place raises a `BadScenario`."""
