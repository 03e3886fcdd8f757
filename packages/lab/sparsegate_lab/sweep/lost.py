"""Finds trials whose process was killed, and gives them back to the sweep."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

SIGN = "process"
"""The attribute of a trial that says which process trains it, and when it last did."""
WHY = "why"
"""The attribute that says why a trial failed or was ended; one of a killed process has none."""
KEPT = ("curve",)
"""Attributes that the trial that continues takes over."""
SILENCE = 600.0
"""Seconds without a sign after which the process of another machine counts as killed."""
BEAT = 30.0
"""Seconds between two signs."""


def sign_of_life() -> dict[str, Any]:
    """What a process says of itself: its machine, its id, when it began, and the time."""
    pid = os.getpid()
    return {"host": platform.node(), "pid": pid, "began": _began(pid), "time": round(time.time())}


def was_lost(trial: FrozenTrial) -> bool:
    """Whether the process of a trial was killed, so that another trial continues it."""
    return trial.state.name == "FAIL" and WHY not in trial.user_attrs


def give_back(study: Study) -> int:
    """Marks trials of killed processes as failed, and queues them again with the same settings.

    The new trial has the same run, and so continues from the run's checkpoint.

    Args:
        study: Optuna's study.

    Returns:
        The number of trials that were queued.
    """
    from optuna.trial import TrialState

    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    lost = [each for each in running if not is_alive(each.user_attrs.get(SIGN), each)]
    return sum(queue_again(study, each.number) for each in lost)


def queue_again(study: Study, number: int) -> bool:
    """Marks a running trial as failed, and queues another with its settings.

    Args:
        study: Optuna's study.
        number: the number of the trial.

    Returns:
        Whether it was still running; another process may have been faster.
    """
    from optuna.trial import TrialState

    try:
        study.tell(number, state=TrialState.FAIL)
    except (ValueError, RuntimeError):
        return False
    trial = study.get_trials(deepcopy=False)[number]
    kept = {name: trial.user_attrs[name] for name in KEPT if name in trial.user_attrs}
    study.enqueue_trial(trial.params, user_attrs={**kept, "continues": number})
    return True


def is_alive(sign: dict[str, Any] | None, trial: FrozenTrial) -> bool:
    """Whether a process that gave this sign is still at work on a trial.

    Args:
        sign: its last sign; None if it has not given one yet.
        trial: the trial.
    """
    if sign is None:
        started = trial.datetime_start
        return started is not None and time.time() - started.timestamp() < SILENCE
    if sign["host"] == platform.node():
        return _began(int(sign["pid"])) == str(sign["began"])
    return bool(time.time() - sign["time"] < SILENCE)


def _began(pid: int) -> str:
    """When a process began, as its system says; empty if there is no such process."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            return stat.read_text().rpartition(")")[2].split()[19]
        except OSError:
            return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "running"
