"""A run that begins with an image of a file system goes on as one that made it."""

import fcntl
import os
from typing import Any

from fencepost.sim.explore import AuditRequest, audit
from fencepost.sim.explore.reporting import run_token
from fencepost.sim.world import NO_FAULTS, View, World


def test_an_image_stands_for_the_calls_that_made_it() -> None:
    images: list[Any] = []

    def program(world: World) -> None:
        root = world.filesystem()
        if not images:
            (root / "folder").mkdir()
            (root / "folder" / "a").write_bytes(b"first")
            os.link(root / "folder" / "a", root / "b")
            os.setxattr(root / "b", "user.x", b"y")
            fd = os.open(root / "b", os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX)
            images.append(world.files.image())
        world.files.restore(images[0])

        def look() -> Any:
            with (root / "b").open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # what was locked before is free
                file.write(b"again")
            return (root / "folder" / "a").stat().st_nlink, os.getxattr(root / "b", "user.x")

        world.spawn(look, name="one")
        world.spawn(look, name="other")
        world.finally_("alike", alike)

    def alike(view: View) -> bool:
        whole = view.files() == {"b": b"again", "folder/a": b"again"}
        return whole and set(view.results().values()) == {(2, b"y")}

    assert audit(program).verdict == "holds"


def test_every_change_of_a_file_is_another_state() -> None:
    """States of a search are equal only if nothing that a call could learn differs."""
    states: list[Any] = []

    def program(world: World) -> None:
        root = world.filesystem()
        (root / "a").write_bytes(b"first")
        fd = os.open(root / "a", os.O_RDWR)

        def change() -> None:
            states.append(world.files.state()[0])
            os.pwrite(fd, b"F", 0)
            states.append(world.files.state()[0])
            os.setxattr(root / "a", "user.x", b"y")
            states.append(world.files.state()[0])
            os.removexattr(root / "a", "user.x")
            os.ftruncate(fd, 2)
            states.append(world.files.state()[0])
            os.utime(root / "a", ns=(7, 7))
            states.append(world.files.state()[0])

        world.spawn(change, name="p")

    run_token(AuditRequest(program, budget=NO_FAULTS), "default")
    assert len(states) == len(set(states)) == 5
