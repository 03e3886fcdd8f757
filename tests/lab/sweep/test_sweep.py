"""A sweep of real runs with Optuna: repeatable, shared, resumed, and stopped early."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading

import optuna
import pytest

from sparsegate_lab.sweep import SweepResult, Vary, plot_sweep, sweep, sweep_table
from sparsegate_lab.sweep import lost as lost_trials
from sparsegate_lab.sweep.search import open_journal, open_study
from sparsegate_lab.train import Run, Watcher

optuna.logging.set_verbosity(optuna.logging.WARNING)
SPACE = [Vary("lr", 0.01, 0.3, log=True), Vary("target.keep", 0.01, 0.05, log=True)]


def facts(result):
    """All but times and the numbers of trials, which interruptions change."""
    return [
        dataclasses.replace(each, number=0, seconds=None, machine={}) for each in result.outcomes
    ]


class Interruption(Watcher):
    """Interrupts after so many steps, as Ctrl-C does."""

    def __init__(self, steps):
        self.left = steps

    def stepped(self, step):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def study_of(folder, objectives=("validation", "bytes")):
    """The study of the only sweep in a folder."""
    (journal,) = folder.glob("*.journal")
    return open_study(journal.stem, str(journal), objectives, 0)


def test_a_sweep_ends_with_a_table_of_runs(small, tmp_path):
    lines = []
    result = sweep(small(), SPACE, trials=3, folder=tmp_path, say=lines.append)
    assert len(result.ended) == 3
    assert lines[0].startswith("trial 0: lr 0.")
    for each in result.ended:
        packed = tmp_path / each.run / "network.sg"
        assert each.bytes == packed.stat().st_size
        settings = json.loads((tmp_path / each.run / "run.json").read_text())
        assert settings["lr"] == each.settings["lr"]
        assert settings["method"]["target"]["keep"] == each.settings["target.keep"]
    best = result.best()
    assert best[0].bytes == min(each.bytes for each in result.ended)
    assert max(best, key=lambda each: each.bytes).validation == max(
        each.validation for each in result.ended
    )
    heads, *rows = sweep_table(result)
    assert heads[:3] == ("trial", "lr", "target.keep")
    assert [row[-1] for row in rows].count("best") == len(best)
    result.save(tmp_path / "result.json")
    assert SweepResult.load(tmp_path / "result.json") == result
    assert [path.suffix for path in plot_sweep(result, tmp_path / "result.json")] == [
        ".svg",
        ".png",
    ]


def test_an_interrupted_sweep_ends_like_an_uninterrupted_one(small, tmp_path):
    whole = sweep(small(), SPACE, trials=3, folder=tmp_path / "whole")
    options = {"trials": 3, "folder": tmp_path / "parts"}
    for steps in (12, 30):  # in the second epoch of the first trial, then in the third trial
        with pytest.raises(KeyboardInterrupt):
            sweep(small(), SPACE, watch=Interruption(steps), **options)
    assert facts(sweep(small(), SPACE, **options)) == facts(whole)


@pytest.mark.parametrize(("stop_early", "state"), [(True, "stopped"), (False, "ended")])
def test_a_trial_that_is_behind_is_stopped_and_says_so(stop_early, state, small, tmp_path):
    space = [Vary("lr", 0.01, 0.02)]
    options = {"objectives": ("validation",), "folder": tmp_path, "stop_early": stop_early}
    with pytest.raises(KeyboardInterrupt):
        sweep(small(), space, watch=Interruption(1), **options)
    study = study_of(tmp_path, ("validation",))
    for _ in range(4):
        better = {"curve": [[0.5, 99.9, 100]]}
        study.add_trial(optuna.trial.create_trial(value=99.9, user_attrs=better))
    result = sweep(small(), space, trials=5, **options)
    assert [each.state for each in result.outcomes] == [state, *["ended"] * 4]
    mine = result.outcomes[0]
    assert mine.why == ("behind after epoch 1 of 2" if stop_early else "")
    assert (mine.test is None) == stop_early
    assert mine.validation is not None


def test_a_trial_that_diverges_is_a_row_of_the_table(small, tmp_path):
    space = [Vary("lr", 1e20, 1e30, log=True)]
    result = sweep(small(), space, trials=2, folder=tmp_path)
    assert [each.state for each in result.outcomes] == ["failed", "failed"]
    assert "the loss became" in result.outcomes[0].why
    assert "the loss became" in sweep_table(result)[1][-1]
    assert plot_sweep(result, tmp_path / "result.json") == []


def test_trials_of_other_processes_are_left_alone_until_they_are_silent(small, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        sweep(small(), SPACE, watch=Interruption(1), folder=tmp_path)
    study = study_of(tmp_path)
    continued, elsewhere, silent, dead = (study.ask() for _ in range(4))
    here = lost_trials.sign_of_life()
    there = here | {"host": "elsewhere"}
    elsewhere.set_user_attr(lost_trials.SIGN, there)
    silent.set_user_attr(lost_trials.SIGN, there | {"time": there["time"] - 1000})
    dead.set_user_attr(lost_trials.SIGN, here | {"began": "before"})
    continued.set_user_attr(lost_trials.SIGN, here)
    lines = []
    result = sweep(small(), SPACE, trials=3, folder=tmp_path, say=lines.append)
    assert lines[0] == "2 interrupted trials continue"
    assert [each.state for each in result.outcomes] == ["running", "running", "ended", "ended"]


def test_more_trials_go_on_after_a_line_that_was_cut_off(small, tmp_path):
    first = sweep(small(), SPACE[:1], trials=1, folder=tmp_path)
    with (tmp_path / f"{first.name}.journal").open("a") as file:
        file.write('{"op_code": 5, "worker')
    both = sweep(small(), SPACE[:1], trials=2, folder=tmp_path)
    assert both.outcomes[0] == first.outcomes[0]
    assert len(both.ended) == 2


def test_a_database_is_a_storage_too(small, tmp_path):
    url = f"sqlite:///{tmp_path}/trials.db"
    options = {"trials": 1, "folder": tmp_path, "storage": url}
    result = sweep(small(), SPACE, **options)
    assert not list(tmp_path.glob("*.journal"))
    assert sweep(small(), SPACE, **options).outcomes == result.outcomes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "at least one trial, got 0"),
        ({"objectives": ("accuracy",)}, "the objectives are validation, bytes or weights"),
        ({"objectives": ("bytes", "weights")}, "the objectives are"),
        ({"objectives": ()}, "got none"),
    ],
)
def test_wrong_options_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        sweep(Run(), SPACE, folder=tmp_path, **options)


def test_several_processes_of_one_run_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="without torchrun"):
        sweep(Run(), SPACE, folder=tmp_path)


def test_a_folder_is_no_storage(tmp_path):
    with pytest.raises(ValueError, match="got the folder"):
        open_journal(tmp_path)


@pytest.mark.slow
def test_a_killed_sweep_ends_like_an_uninterrupted_one(digits, environment, tmp_path):
    words = ["sweep", "lenet300", "--data", str(digits), "--epochs", "6", "--batch-size", "20"]
    words += ["--vary", "lr", "0.01", "0.3", "log", "--target.keep", "0.1", "--trials", "5"]

    def command(folder):
        return [sys.executable, "-m", "sparsegate", *words, "--folder", str(tmp_path / folder)]

    subprocess.run(command("whole"), env=environment, check=True, capture_output=True)
    for epochs in (3, 14):
        process = subprocess.Popen(
            command("parts"), env=environment, stdout=subprocess.PIPE, text=True
        )
        timer = threading.Timer(100, process.kill)
        timer.start()
        for line in process.stdout:
            epochs -= line.startswith("epoch")
            if epochs == 0:
                break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        timer.cancel()
    done = subprocess.run(
        command("parts"), env=environment, check=True, capture_output=True, text=True
    )
    assert "1 interrupted trial continues" in done.stdout
    whole, parts = (
        SweepResult.load(next((tmp_path / folder).glob("sweep-*.json")))
        for folder in ("whole", "parts")
    )
    assert facts(parts) == facts(whole)
    assert len(whole.outcomes) == 5
