"""Steps on the world's file system, and the loss of power."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.sim.world import budget as fault
from fencepost.sim.world.footprints import POWER_ACTOR
from fencepost.sim.world.operations import BLOCKED, CONVERTING, POWER_LOSS, Call, Survival
from fencepost.sim.world.process import Process
from fencepost.sim.world.record import Learnt, StepRecord
from fencepost.sim.world.run import RunState
from fencepost.sim.world.thread_steps import DEADLOCK

if TYPE_CHECKING:
    from fencepost.sim.world.executor import Executor


class FileSteps:
    """Takes system calls on the disk of a run, and losses of power."""

    def __init__(self, run: RunState, executor: Executor) -> None:
        self._run = run
        self._executor = executor
        self.powered = 0
        """The steps in which power was lost, as a bit set."""

    def call(self, record: StepRecord, process: Process, call: Call, alternative: str) -> None:
        """Take a system call."""
        run, files = self._run, self._run.mounted
        answer = files.perform(process.index, process.ops, call)
        record.set_footprint((files.r, files.w))
        if record.written and run.footprints.stamp:
            run.observe_time()
        if answer == BLOCKED and call.kind == "flock":
            run.log(process.index, alternative, process, process.ops, call, answer)
            if run.alone:
                self._report_deadlock(process, call)
            process.set_effective(files.outlives)
            process.block(record.read, record.place)
            return
        if record.written:
            process.change_something(files.outlives)
        else:
            self._executor.requests.change_nothing(record, process, call, answer, files.outlives)
        run.log(process.index, alternative, process, process.ops, call, answer)
        if answer == CONVERTING and call.kind == "flock":
            process.set_last(record.place)
        else:
            self._executor.go_on(record, process, answer)

    def _report_deadlock(self, process: Process, call: Call) -> None:
        holder = self._run.processes[self._run.mounted.holder(call.args[1]) - 1].name
        held = f"{holder} holds" if holder != process.name else "it holds itself, through another descriptor"
        self._run.report_violation(
            DEADLOCK, f"{process.name} waits for the lock of {call.subject}, which {held}"
        )

    def power(self, record: StepRecord, alternative: str) -> None:
        """Lose power, which stops all processes; or keep it to the end of the run.

        After a loss, a step of its own picks the state of the disk, and processes start again.
        """
        run = self._run
        if run.survivors is not None:
            self._come_back(record, 0 if alternative == "ok" else int(alternative.removeprefix("pick")))
            return
        run.log(POWER_ACTOR, alternative, None, 0, POWER_LOSS, None)
        if alternative == "ok":
            run.stay_on()
            return
        self.powered |= record.place
        learnt: list[Learnt] = []
        run.drop_flights(None)
        for process in run.processes:
            if process.pending is None and process.group is None:
                continue
            self._executor.kill_machine(record, process)
            process.forget(record.place)
            process.stop("off")
            learnt.append((process.index, ("crash", process.incarnation)))
        record.stop_the_world(learnt)
        run.lose_power(self._run.mounted.outcomes())

    def _come_back(self, record: StepRecord, picked: int) -> None:
        run = self._run
        survivors = run.survivors
        assert survivors is not None
        run.restore_power()
        outcome = survivors[picked]
        self._run.mounted.survive(outcome)
        self.powered |= record.place
        alternative = f"pick{picked}" if picked else "ok"
        run.log(POWER_ACTOR, alternative, None, 0, Survival(len(survivors)), outcome.text)
        record.stop_the_world([])
        for process in run.processes:
            if process.state == "off" and process.restart and run.budget_left[fault.RESTART]:
                run.spend(fault.RESTART)
                self._executor.begin(process)
            elif process.after_power_loss and process.state == "new":
                process.set_last(record.place)
                self._executor.begin(process)
            elif process.state == "off":
                process.stop("down")
