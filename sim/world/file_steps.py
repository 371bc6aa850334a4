"""Steps on the world's file system, and the loss of power."""

from typing import Any

from fencepost.sim.world import budget as fault
from fencepost.sim.world.footprints import EVERYTHING, POWER_ACTOR
from fencepost.sim.world.operations import BLOCKED, CONVERTING, POWER_LOSS, Call, Survival
from fencepost.sim.world.process import Process
from fencepost.sim.world.request_steps import SPINS
from fencepost.sim.world.thread_steps import DEADLOCK


class FileSteps:
    """What happens to the disk of `world` when the executor takes a step."""

    def __init__(self, world: Any, executor: Any) -> None:
        self._world = world
        self._executor = executor
        self.powered = 0
        """The steps in which power was lost, as a bit set."""

    def call(self, process: Process, call: Call, alternative: str) -> None:
        """A system call."""
        world = self._world
        files = world.files
        answer = files.perform(process.index, process.ops, call)
        world.r, world.w = files.r, files.w
        if world.w and world.footprints.stamp:
            world.observed = True
        process.effective = files.outlives
        if answer == BLOCKED and call.kind == "flock":
            self._executor.log(process.index, alternative, process, process.ops, call, answer)
            if world.alone:
                holder = world.processes[files.holder(call.args[1]) - 1].name
                held = (
                    f"{holder} holds"
                    if holder != process.name
                    else "it holds itself, through another descriptor"
                )
                world.report_violation(
                    DEADLOCK, f"{process.name} waits for the lock of {call.subject}, which {held}"
                )
            # It waits until somebody changes what it read.
            process.last_idle = (call, answer, world.r)
            process.spins = SPINS
            process.last = self._executor.here
            return
        if world.w:
            process.spins = process.naps = process.nap_reads = 0
            process.last_idle = None
        else:
            process.nap_reads |= world.r
            self._executor.requests.count_spins(process, call, answer)
        self._executor.log(process.index, alternative, process, process.ops, call, answer)
        if answer == CONVERTING and call.kind == "flock":
            process.last = self._executor.here
        else:
            self._executor.go_on(process, answer)

    def power(self, alternative: str) -> None:
        """Power is lost, and all processes stop; or, in a step of its own, what is left of the disk is
        picked, and processes start again; or it is decided that power stays on.
        """
        world = self._world
        world.before = self.powered
        if world.survivors is not None:
            self._come_back(0 if alternative == "ok" else int(alternative.removeprefix("pick")))
            return
        if alternative == "ok":
            world.stays_on = True
            self._executor.log(POWER_ACTOR, alternative, None, 0, POWER_LOSS, None)
            return
        world.is_barrier = True
        world.r = world.w = EVERYTHING
        self.powered |= self._executor.here
        self._executor.log(POWER_ACTOR, alternative, None, 0, POWER_LOSS, None)
        world.learnt = []
        for flight in [flight for flight in world.flights.values() if not flight.zombie]:
            del world.flights[flight.actor]
        for process in world.processes:
            if process.pending is None and process.group is None:
                continue
            self._executor.kill_machine(process)
            self._executor.forget(process)
            process.state = "off"
            world.learnt.append((process.index, ("crash", process.incarnation)))
        world.survivors = world.files.outcomes()

    def _come_back(self, picked: int) -> None:
        world = self._world
        world.is_barrier = True
        world.r = world.w = EVERYTHING
        survivors, world.survivors = world.survivors, None
        outcome = survivors[picked]
        world.files.survive(outcome)
        self.powered |= self._executor.here
        alternative = f"pick{picked}" if picked else "ok"
        self._executor.log(POWER_ACTOR, alternative, None, 0, Survival(len(survivors)), outcome.text)
        for process in world.processes:
            if process.state == "off" and process.restart and world.left[fault.RESTART]:
                world.left = fault.spend(world.left, fault.RESTART)
                self._executor.begin(process)
            elif process.after_power_loss and process.state == "new":
                process.last = self._executor.here
                self._executor.begin(process)
            elif process.state == "off":
                process.state = "down"
