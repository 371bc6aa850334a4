"""What is wrong with a scenario, and where: the one error users of scenario files meet."""


class BadScenario(Exception):
    """One sentence that begins with the place: file and line."""


class BadValue(Exception):
    """What is wrong with one value, in a clause; whoever knows its place makes a `BadScenario` of it."""
