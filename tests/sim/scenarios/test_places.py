"""Every key is found on its line, however the file is laid out."""

from fencepost.sim.scenarios.source import line_of, places

TEXT = '''title = "x"
about = """
store = "not a key"
[not a table]
"""
[store]
latency = { p50 = "1 ms", p99 = "2 ms" }  # [comment]
in_flight = 8

[ "workload" ]
"think" = "1 ms"
maintenance.compaction = 5

[[case]]
name = "one"
[[case]]
name = "two"
set = { "workload.depth" = 1 }
[sweep]
"store.latency" = [
    "1 ms",
    "2 ms",
]
writers = [1]
'''


def test_keys_and_tables_are_found_where_they_stand() -> None:
    found = places(TEXT)
    for path, line in {
        "title": 1,
        "about": 2,
        "store": 6,
        "store.latency": 7,
        "store.latency.p99": 7,
        "store.in_flight": 8,
        "workload": 10,
        "workload.think": 11,
        "workload.maintenance.compaction": 12,
        "case.0": 14,
        "case.0.name": 15,
        "case.1.name": 17,
        "case.1.set.workload.depth": 18,
        "sweep": 19,
        "sweep.store.latency": 20,
        "sweep.writers": 24,
    }.items():
        assert line_of(found, path) == line, path


def test_text_that_only_looks_like_keys_is_none() -> None:
    assert "about.store" not in places(TEXT)
    assert not any("not a table" in path for path in places(TEXT))


def test_what_is_not_found_is_near_what_is_around_it() -> None:
    found = places(TEXT)
    assert line_of(found, "store.bandwidth") == 6
    assert line_of(found, "client") == 1
