"""Sessions that are made in a run are those of the SDK, made in less time.

If this fails, the SDK of an audited process finds other services, sends its events under other names, or
calls a handler with arguments that it does not take: the audit is of another program.
"""

import functools
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any

import botocore.handlers
import botocore.loaders
import botocore.session
import pytest
from botocore import hooks
from botocore.exceptions import DataNotFoundError
from botocore.loaders import Loader

from fencepost.sim.boto import sessions
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.world import NO_FAULTS, World, places


def in_a_world(work: Callable[[], Any]) -> Any:
    """Return the result of `work`, called while a program sets its world up."""
    found: list[Any] = []

    def program(world: World) -> None:
        world.boto3_bucket("b")
        found.append(work())
        world.spawn(lambda: None, name="ann")

    ReducedSearch(Setting(program, NO_FAULTS)).explore()
    return found[0]


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_listed", {})
    monkeypatch.setattr(sessions, "_names", {})


# Services.

TYPES = ("service-2", "endpoint-rule-set-1", "none-1")


def services(folder: Path, *names: str) -> Loader:
    for name in names:
        (folder / name / "2006-03-01").mkdir(parents=True)
        (folder / name / "2006-03-01" / "service-2.json").write_text("{}")
    return Loader(extra_search_paths=[str(folder)], include_default_search_paths=False)


@pytest.mark.usefixtures("nothing_kept")
def test_services_are_those_that_the_sdk_finds(tmp_path: Path) -> None:
    def listed() -> list[Any]:
        loader = Loader()
        made = services(tmp_path / str(len(list(tmp_path.iterdir()))), "mine", "other")
        return [
            *(
                loader.list_available_services(name)
                for name in ("service-2", "endpoint-rule-set-1", "none-1")
            ),
            loader.list_available_services(type_name="service-2"),
            loader.list_api_versions("s3", "service-2"),
            loader.determine_latest_version("s3", "service-2"),
            made.list_available_services("service-2"),
            made.list_api_versions("mine", "service-2"),
        ]

    expected = listed()
    assert "s3" in expected[0]
    assert expected[6] == ["mine", "other"]
    assert in_a_world(lambda: [listed(), listed()]) == [expected, expected]


@pytest.mark.usefixtures("nothing_kept")
def test_folders_are_looked_into_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    real = botocore.loaders.JSONFileLoader.exists

    def exists(self: Any, path: str) -> bool:
        looked.append(path)
        return bool(real(self, path))

    monkeypatch.setattr(botocore.loaders.JSONFileLoader, "exists", exists)

    def listed() -> int:
        Loader().list_available_services("service-2").clear()
        return len(looked)

    first, second = in_a_world(lambda: [listed(), listed()])
    assert first == second > 100
    assert in_a_world(lambda: Loader().list_available_services("service-2"))
    assert listed() > second, "outside of a world the SDK looks for itself"


@pytest.mark.usefixtures("nothing_kept")
def test_a_loader_of_another_kind_looks_for_itself(tmp_path: Path) -> None:
    class Own(Loader):  # type: ignore[misc]  # botocore ships no types
        def list_available_services(self, type_name: str) -> list[str]:
            return [*super().list_available_services(type_name), "own"]

    def listed(name: str) -> Any:
        loader = services(tmp_path / name, "mine")
        loader.__class__ = Own
        before = loader.list_available_services("service-2")
        with pytest.raises(DataNotFoundError):
            loader.list_api_versions("absent", "service-2")
        return before

    assert in_a_world(lambda: listed("one")) == ["mine", "own"]
    assert not sessions._listed


@pytest.mark.usefixtures("nothing_kept")
def test_folders_of_a_program_with_files_are_looked_into_each_time() -> None:
    found: list[Any] = []

    def with_files(world: World) -> None:
        world.boto3_bucket("b")
        world.filesystem()
        found.append(Loader().list_available_services("service-2"))
        world.spawn(lambda: None, name="ann")

    ReducedSearch(Setting(with_files, NO_FAULTS)).explore()
    assert "s3" in found[0]
    assert not sessions._listed


@pytest.mark.usefixtures("nothing_kept")
def test_nothing_is_kept_between_worlds() -> None:
    with places.held(program):
        Loader().list_available_services("service-2")
        hooks.EventAliaser(hooks.HierarchicalEmitter())._alias_event_name("before-call.s3.PutObject")
        assert not sessions._listed
        assert not sessions._names


# Names of events.

EVENTS = [
    *{row[0] for row in botocore.handlers.BUILTIN_HANDLERS},
    *(f"before-call.{name}.Operation" for name in hooks.EVENT_ALIASES),
    *hooks.EVENT_ALIASES,
    "needs-retry.s3.PutObject",
    "getattr.s3.exceptions",
    "docs.*.autoscaling.CreateLaunchConfiguration.complete-section",
    "",
    "a..b",
]


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("aliases", [None, {"s3": "files", "getattr": "ask"}])
def test_events_have_the_names_that_the_sdk_gives_them(aliases: dict[str, str] | None) -> None:
    def named() -> list[str]:
        aliaser = hooks.EventAliaser(hooks.HierarchicalEmitter(), aliases)
        return [aliaser._alias_event_name(name) for name in EVENTS * 2]

    expected = named()
    assert expected != EVENTS * 2
    assert in_a_world(lambda: [named(), named()]) == [expected, expected]
    assert bool(sessions._names) == (aliases is None)


@pytest.mark.usefixtures("nothing_kept")
def test_a_debug_log_has_the_names_of_every_session(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "botocore.hooks")

    def named() -> None:
        hooks.EventAliaser(hooks.HierarchicalEmitter())._alias_event_name("before-call.sagemaker.Operation")
        hooks.EventAliaser(hooks.HierarchicalEmitter())._alias_event_name("before-call.api.sagemaker.Call")

    in_a_world(lambda: [named(), named()])
    changed = [one for one in caplog.records if "Changing event name" in one.getMessage()]
    assert len(changed) % 2 == 0
    assert len(changed) >= 2


@pytest.mark.usefixtures("nothing_kept")
def test_names_that_are_kept_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "NAMES_MAX", 10)
    in_a_world(
        lambda: [
            hooks.EventAliaser(hooks.HierarchicalEmitter())._alias_event_name(f"event-{n}") for n in range(25)
        ]
    )
    assert len(sessions._names) <= 10


# Handlers.


class Handlers:
    def plain(self, request: Any) -> None: ...

    def taking(self, request: Any, **rest: Any) -> None: ...

    @classmethod
    def of_class(cls, *args: Any, one: int = 1, **kwargs: Any) -> None: ...

    @staticmethod
    def static(*, one: int = 1, **more: Any) -> None: ...

    def __call__(self, **named: Any) -> None: ...


def with_signature(**kwargs: Any) -> None: ...


with_signature.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # what a decorator sets


@functools.wraps(Handlers.plain)
def wrapping(*args: Any, **options: Any) -> None: ...


def many(a: Any, /, b: Any, *args: Any, c: int, d: int = 2, **e: Any) -> None:
    f = g = h = 0
    del f, g, h


def no_object() -> None: ...


HANDLERS: list[Any] = [
    Handlers.plain,
    Handlers().plain,
    Handlers().taking,
    Handlers.of_class,
    Handlers.static,
    Handlers(),
    with_signature,
    wrapping,
    many,
    MethodType(many, 1),
    MethodType(no_object, 1),
    lambda **_: None,
    lambda *args: None,
    lambda a, b=1: a,
    functools.partial(many, 1, c=2),
    functools.partial(Handlers.plain),
    MethodType(Handlers(), 1),
    Handlers,
    *{row[1] for row in botocore.handlers.BUILTIN_HANDLERS},
]


def test_handlers_take_what_the_sdk_says() -> None:
    def asked() -> list[Any]:
        return [hooks.accepts_kwargs(one) for one in HANDLERS]

    expected = asked()
    assert {None, "kwargs", "more", "e", "rest"} <= set(expected)
    assert in_a_world(asked) == expected


# All together.


def makes_its_own(name: str) -> Any:
    session = botocore.session.Session()
    session.set_credentials("key", "secret")
    client = session.create_client("s3", region_name="us-east-1")
    client.put_object(Bucket="b", Key="last", Body=name.encode())
    return client.get_object(Bucket="b", Key="last")["Body"].read()


def program(world: World) -> None:
    world.boto3_bucket("b")
    for name in ("ann", "bob"):
        world.spawn(makes_its_own, name, name=name)


@pytest.mark.usefixtures("nothing_kept")
def test_a_search_of_code_that_makes_sessions_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched() -> Any:
        found: set[Any] = set()
        setting = Setting(program, NO_FAULTS)
        search = ReducedSearch(setting, observe=lambda world: found.add(final_state(world)))
        search.explore()
        assert search.exhausted
        return found, search.schedules, search.runs, search.steps

    with monkeypatch.context() as without:
        without.setattr(sessions, "controlled", lambda: None)
        expected = searched()
        assert not sessions._listed
        assert not sessions._names
    assert len(expected[0]) == 4, "each reads one of two bodies"
    assert searched() == expected
    assert sessions._listed
    assert sessions._names
