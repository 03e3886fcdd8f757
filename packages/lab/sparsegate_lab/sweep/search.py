"""`sweep`: trains a run with many settings, which a sampler chooses by what it has seen."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsegate_lab.record import Epoch, Record
from sparsegate_lab.train import (
    BusyError,
    DivergedError,
    MemoryShortError,
    Run,
    RunFolder,
    Watcher,
    Watchers,
    train,
    versions,
)

from .lost import BEAT, SIGN, WHY, give_back, queue_again, sign_of_life, was_lost
from .outcome import Outcome, SweepResult
from .space import Space, Value, fitted_space, with_settings
from .stop_early import Curve, is_behind

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

OBJECTIVES = {"validation": "maximize", "bytes": "minimize", "weights": "minimize"}
MISSING = "a sweep needs Optuna, which is not installed; pip install 'sparsegate-lab[sweep]'"
STATES = {"COMPLETE": "ended", "PRUNED": "stopped", "FAIL": "failed", "RUNNING": "running"}


def sweep(
    run: Run[Any],
    space: Space,
    *,
    trials: int = 20,
    objectives: Sequence[str] = ("validation", "bytes"),
    folder: Path | str = "runs",
    storage: str = "",
    stop_early: bool = True,
    watch: Watcher | None = None,
    say: Callable[[str], object] | None = None,
    command: str = "",
) -> SweepResult:
    """Trains a run with many settings and returns a table of the runs.

    >>> sweep(Run(), [Vary("lr", 0.01, 0.1, log=True)], trials=8)  # doctest: +SKIP

    Every trial is an ordinary run in the folder. A sweep that was interrupted continues when it is
    called again, bit for bit on a CPU; so do its runs. Processes and machines that share the
    storage take part in the same sweep.

    Args:
        run: the settings that all trials share.
        space: the settings that vary.
        trials: the number of trials, over all processes and all calls.
        objectives: what is to be good: validation (accuracy), bytes (of the .sg file), weights.
        folder: the folder of all runs.
        storage: where the trials are noted: a file, or the URL of a database. A file in the folder
            unless given.
        stop_early: whether trials end that are behind the others.
        watch: is called as each run proceeds.
        say: is called with a line on each trial.
        command: the words of the command, for the result.
    """
    space, folder = fitted_space(run, space), Path(folder)
    _check(trials, objectives)
    name = name_of(run, space, objectives)
    study = open_study(name, storage or str(folder / f"{name}.journal"), objectives, run.seed)
    say = say or (lambda _: None)
    if found := give_back(study):
        say(f"{found} interrupted {'trial continues' if found == 1 else 'trials continue'}")
    while _is_due(study, trials):
        trial = study.ask()
        try:
            trial.set_user_attr(SIGN, sign_of_life())
            values = {each.name: each.suggest(trial) for each in space}
            trial.set_user_attr("settings", values)
            say(f"trial {trial.number}: {in_words(values)}")
            runner = _Runner(study, trial, stop_early=stop_early, by_size=len(objectives) > 1)
            runner.run(with_settings(run, values), folder, objectives, watch, command)
        except BaseException:
            queue_again(study, trial.number)
            raise
        give_back(study)
    return SweepResult(
        name=name,
        command=command,
        objectives=tuple(objectives),
        run=run.to_json(),
        versions=versions(),
        outcomes=tuple(_outcome(each) for each in study.trials if _is_shown(each)),
    )


def name_of(run: Run[Any], space: Space, objectives: Sequence[str]) -> str:
    """The name of a sweep: the model and a hash of all that determines its trials."""
    facts = [run.name, [[type(each).__name__, *vars(each).items()] for each in space], *objectives]
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=4).hexdigest()
    return f"sweep-{run.model}-{run.method_name}-{digest}"


def open_study(name: str, storage: str, objectives: Sequence[str], seed: int) -> Study:
    """Optuna's study of this name, which other processes may have begun.

    Args:
        name: the name of the sweep.
        storage: a file, or the URL of a database.
        objectives: what is to be good.
        seed: the seed of the sampler.
    """
    try:
        import optuna
    except ImportError as error:
        raise ValueError(MISSING) from error
    from .sampler import RepeatableSampler
    from .search import open_journal

    return optuna.create_study(
        study_name=name,
        storage=storage if "://" in storage else open_journal(Path(storage)),
        sampler=RepeatableSampler(seed),
        directions=[OBJECTIVES[each] for each in objectives],  # type: ignore[misc]
        load_if_exists=True,
    )


def in_words(values: dict[str, Value]) -> str:
    """Settings in one line.

    >>> in_words({"lr": 0.05, "target.keep": 0.01})
    'lr 0.05, target.keep 0.01'
    """
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


class _Runner(Watcher):
    """Trains the run of one trial, tells the study how it went, and ends it if it is behind."""

    def __init__(self, study: Study, trial: Trial, *, stop_early: bool, by_size: bool) -> None:
        self._study, self._trial, self._by_size = study, trial, by_size
        self._stops = stop_early
        self._curve = list(trial.user_attrs.get("curve", []))
        self._others = [list(each.user_attrs["curve"]) for each in _complete(study)]
        self._method, self._epochs, self._counts = "", 1, True
        self._signed = time.monotonic()

    def run(
        self,
        run: Run[Any],
        folder: Path,
        objectives: Sequence[str],
        watch: Watcher | None,
        command: str,
    ) -> None:
        """Trains, and tells the study the result."""
        from optuna import TrialPruned
        from optuna.trial import TrialState

        self._method = run.method_name
        self._trial.set_user_attr("run", run.name)
        watchers = Watchers(self, *([watch] if watch is not None else []))
        values, state = None, TrialState.COMPLETE
        try:
            record = train(run, folder=folder, watch=watchers, command=command)
            facts = _facts(record, folder)
            for name, value in facts.items():
                self._trial.set_user_attr(name, value)
            self._trial.set_user_attr("curve", _curve_of(record))
            results = {**facts, "weights": record.kept}
            values = [float(results[each]) for each in objectives]
        except TrialPruned as behind:
            state = TrialState.PRUNED
            self._trial.set_user_attr(WHY, str(behind))
        except (DivergedError, MemoryShortError, BusyError) as error:
            state = TrialState.FAIL
            self._trial.set_user_attr(WHY, str(error))
        # Another machine may have taken this process for dead and told the study so.
        self._study.tell(self._trial, values, state=state, skip_if_finished=True)

    def began(self, run: Run[Any], folder: Path, step: int, steps: int, num_weights: int) -> None:
        """Forgets the epochs that are trained again."""
        self._counts = run.method_name == self._method  # max_drop trains a dense network first
        self._epochs, done = run.epochs, step / steps
        if self._counts:
            self._curve = [point for point in self._curve if point[0] <= done + 1e-9]

    def stepped(self, step: int) -> None:
        """Gives a sign of life from time to time."""
        if time.monotonic() - self._signed > BEAT:
            self._signed = time.monotonic()
            self._trial.set_user_attr(SIGN, sign_of_life())

    def measured(self, epoch: Epoch) -> None:
        """Notes the epoch, and ends the trial if it is behind."""
        from optuna import TrialPruned

        if not self._counts:
            return
        self._curve.append([epoch.epoch / self._epochs, epoch.validation, float(epoch.kept)])
        self._trial.set_user_attr("curve", self._curve)
        is_last = epoch.epoch == self._epochs
        if (
            self._stops
            and not is_last
            and is_behind(self._curve, self._others, by_size=self._by_size)
        ):
            raise TrialPruned(f"behind after epoch {epoch.epoch} of {self._epochs}")


def _check(trials: int, objectives: Sequence[str]) -> None:
    if trials < 1:
        raise ValueError(f"a sweep has at least one trial, got {trials}")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            "each process of a sweep trains a run of its own; start the command once for each "
            "process, without torchrun, with the same folder or --storage"
        )
    unknown = [each for each in objectives if each not in OBJECTIVES]
    if (
        unknown
        or not 1 <= len(set(objectives)) == len(objectives) <= 2
        or ({"bytes", "weights"} <= set(objectives))
    ):
        raise ValueError(
            "the objectives are validation, bytes or weights, or validation and one of the "
            f"others, got {' '.join(objectives) or 'none'}"
        )


def _is_due(study: Study, trials: int) -> bool:
    """Whether another trial is to be trained; those of killed processes do not count."""
    found = study.get_trials(deepcopy=False)
    if any(each.state.name == "WAITING" for each in found):
        return True
    return sum(not was_lost(each) for each in found) < trials


def _complete(study: Study) -> list[FrozenTrial]:
    found = study.get_trials(deepcopy=False)
    return [each for each in found if each.state.name == "COMPLETE" and "curve" in each.user_attrs]


def _facts(record: Record, folder: Path) -> dict[str, Any]:
    packed = RunFolder(folder / record.name, Run.from_json(record.run)).packed
    sizes = {path.suffix: path.stat().st_size for path in packed}
    return {
        "run": record.name,
        "validation": record.validation,
        "test": record.test,
        "kept": record.kept,
        "total": record.total,
        "bytes": sizes.get(".sg") or min(sizes.values()),
        "seconds": record.seconds,
        "machine": record.machine,
    }


def _curve_of(record: Record) -> Curve:
    epochs = record.run["epochs"]
    return [[each.epoch / epochs, each.validation, float(each.kept)] for each in record.epochs]


def _is_shown(trial: FrozenTrial) -> bool:
    return trial.state.name in STATES and not was_lost(trial)


def _outcome(trial: FrozenTrial) -> Outcome:
    facts = dict(trial.user_attrs)
    state: Any = STATES[trial.state.name]
    curve = facts.get("curve") or [[0.0, None, None]]
    if state != "ended":
        kept = curve[-1][2]
        facts |= {"validation": curve[-1][1], "kept": None if kept is None else int(kept)}
    names = ("run", "validation", "test", "kept", "total", "bytes", "seconds", "why", "machine")
    known = {name: facts[name] for name in names if facts.get(name) is not None}
    return Outcome(number=trial.number, state=state, settings=facts.get("settings", {}), **known)


def open_journal(path: Path) -> JournalStorage:
    """The storage in a file, which may be on a shared file system.

    Args:
        path: the file; it is made if it does not exist, with its folder.
    """
    path = path.resolve()  # Optuna's lock would wait for ever at a relative path
    if path.is_dir():
        raise ValueError(f"the storage is a file or the URL of a database, got the folder {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = JournalFileOpenLock(str(path))
    if path.exists():
        lock.acquire()
        try:
            _mend(path)
        finally:
            lock.release()
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


def _mend(path: Path) -> None:
    """Cuts off a line that a process could not finish; what follows it would be unreadable."""
    with path.open("rb+") as file:
        content = file.read()
        end = content.rfind(b"\n") + 1
        if end < len(content):
            file.truncate(end)
            os.fsync(file.fileno())
