"""Each audited process is a process of its own, on a host of its own."""

import os
import platform
import socket
import uuid
from dataclasses import replace
from os import getpid
from typing import Any

import pytest

from fencepost.commands.audit import read_faults
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, Budget, World

READ = {
    "os.getpid": lambda: os.getpid(),
    "from os import getpid": lambda: getpid(),
    "socket.gethostname": lambda: socket.gethostname(),
    "socket.getfqdn": lambda: socket.getfqdn(),
    "platform.node": lambda: platform.node(),
    "os.uname": lambda: os.uname().nodename,
    "uuid.getnode": lambda: uuid.getnode(),
}


def identities(read: Any, budget: Budget = NO_FAULTS) -> list[tuple[Any, ...]]:
    """What every process of two read, one entry a run."""
    found: list[tuple[Any, ...]] = []

    def program(world: World) -> None:
        world.boto3_bucket("b")
        s3 = world.boto3_client("s3")

        def work() -> None:
            world.note("who", read())
            s3.put_object(Bucket="b", Key="k")

        for name in ("ann", "bob"):
            world.spawn(work, name=name)
        world.finally_("seen", lambda view: found.append(tuple(sorted(view.signed_notes("who")))))

    result = audit(program, budget=budget)
    assert not result.counterexamples, result
    return found


@pytest.mark.parametrize("name", READ)
def test_processes_differ_and_runs_do_not(name: str) -> None:
    read = READ[name]
    outside = read()
    found = identities(read)
    assert len({tuple(run) for run in found}) == 1
    (_, ann), (_, bob) = found[0]
    assert len({ann, bob, outside}) == 3
    assert read() == outside


def test_a_restarted_process_has_another_pid_on_the_same_host() -> None:
    def of_ann(read: Any) -> set[Any]:
        found = identities(read, replace(NO_FAULTS, crash=1))
        return {value for run in found for name, value in run if name == "ann"}

    pids, hosts = of_ann(READ["os.getpid"]), of_ann(READ["socket.gethostname"])
    assert len(pids) == 2
    assert len(hosts) == 1


@pytest.mark.parametrize("words", [["none", "pause=1"], ["none,pause=1"]])
def test_no_fault_comes_back_that_was_switched_off(words: list[str]) -> None:
    assert Budget(**read_faults(words)) == replace(NO_FAULTS, pause=1)
