"""The attack on interrupted commands: killed or on a full disk, they end as uninterrupted ones."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from .attack import FAULT, Attack
from .commands_to_interrupt import GATES, MAKINGS, PAIRS, SHORT, TRAININGS, WRITTEN
from .digits import write_digits
from .process import (
    Ended,
    Running,
    ended,
    ended_together,
    forked,
    forked_pair,
    has_ended,
    problems,
    run_here,
    started,
    started_by_shell,
    started_by_torchrun,
    workers,
)

Begin = Callable[[list[str], Path], list[Running]]
"""Starts a command; its words and where its output goes."""
SIGNALS = (signal.SIGKILL,) * 4 + (signal.SIGTERM, signal.SIGINT)
OTHERS = {"checkpoints", "tensorboard"}
"""Folders that depend on how often a run was resumed."""


class Interruptions(Attack):
    """Interrupts a command a few times at random moments, then lets it end."""

    patience = 1200.0

    def prepare(self, folder: Path) -> None:
        """Digits, and a run in this process, after which its forks need no more imports."""
        self._folder, self._straight = folder, dict[str, tuple[dict[str, bytes], float]]()
        self._output, self._out = folder / "output.txt", folder / "out"
        self._data, self._run = write_digits(folder / "digits", 500), folder / "run"
        words = ["train", "lenet300", "--data", str(self._data), "--folder", str(self._run)]
        if run_here([*words, *SHORT, *GATES, "--seed", "1"], self._output):
            raise RuntimeError(f"no run to begin with: {self._output.read_text()[-300:]}")
        (self._run,) = self._run.iterdir()

    def attempt(self, draw: Random) -> str:
        """Interrupts one way to train, or to make files of a run that has ended."""
        return self._attempted(draw, draw.choice([*TRAININGS, *MAKINGS]), forked)

    def _attempted(self, draw: Random, name: str, begin: Begin) -> str:
        pair = begin in (forked_pair, started_by_torchrun)
        wanted, seconds = self._uninterrupted(name, forked_pair if pair else forked)
        self._empty()
        hits, times = 0, draw.randint(1, 3)
        for _ in range(times):
            done, hit = self._interrupted(draw, self._words(name), begin, seconds)
            hits += hit
            if wrong := next(filter(None, map(self._problems, done)), ""):
                return f"{FAULT}{name}: interrupted: {wrong}"
        done = ended_together(begin(self._words(name), self._output))
        if any(self._problems(each) or each.status for each in done):
            status, wrong = done[0].status, self._problems(done[0])
            return f"{FAULT}{name}: resumed: status {status} {wrong} {done[0].text[-150:]}"
        if left := [path.name for path in self._out.rglob("*.partial")]:
            return f"{FAULT}{name}: {left[0]} is left over"
        found = _content(self._out)
        if different := sorted(
            path for path in wanted | found if found.get(path) != wanted.get(path)
        ):
            return f"{FAULT}{name}: {different[0]} differs from that of the uninterrupted run"
        return f"bit-identical and nothing left over, {hits} interruptions"

    def _interrupted(
        self, draw: Random, words: list[str], begin: Begin, seconds: float
    ) -> tuple[list[Ended], bool]:
        """Starts a command and interrupts it; how it ended, and whether it was in time."""
        raise NotImplementedError

    def _problems(self, done: Ended) -> str:
        return problems(done)

    def _words(self, name: str) -> list[str]:
        where = {"{run}": str(self._run), "{out}": str(self._out)}
        words = TRAININGS.get(name) or PAIRS.get(name) or MAKINGS[name]
        for mark, path in where.items():
            words = [word.replace(mark, path) for word in words]
        if name in MAKINGS:
            return words
        return ["train", "lenet300", "--data", str(self._data), "--folder", str(self._out), *words]

    def _uninterrupted(self, name: str, begin: Begin) -> tuple[dict[str, bytes], float]:
        """What the command leaves if nothing interrupts it, and how long it takes."""
        key = f"{name} {begin.__name__}"
        if key not in self._straight:
            self._empty()
            began = time.monotonic()
            for done in ended_together(begin(self._words(name), self._output)):
                if done.status:
                    raise RuntimeError(f"{name} fails: {done.text[-300:]}")
            self._straight[key] = _content(self._out), time.monotonic() - began
        return self._straight[key]

    def _empty(self) -> None:
        shutil.rmtree(self._out, ignore_errors=True)
        self._out.mkdir()


class Kills(Interruptions):
    """SIGKILL, SIGTERM and Ctrl-C at any moment."""

    title = "random kills of trainings, packing, export and pages, then resumed"
    share = 3.0

    def _interrupted(
        self, draw: Random, words: list[str], begin: Begin, seconds: float
    ) -> tuple[list[Ended], bool]:
        number, watched = draw.choice(SIGNALS), draw.choice(WRITTEN)
        whenever, moment, victim = draw.random() < 0.5, draw.random(), draw.random()
        running = begin(words, self._output)
        if whenever:
            time.sleep(1.2 * seconds * moment)
        else:
            while not next(self._out.rglob(watched), None) and not _one_ended(running):
                time.sleep(0.0005)
            time.sleep(0.1 * seconds * moment * draw.choice((0, 1)))
        pids = [each.pid for each in running]
        if begin is started_by_torchrun:
            pids = _started_workers(running) or pids
        chosen = pids[int(victim * len(pids))]
        hit = not _one_ended(running)
        if hit:
            os.kill(chosen, number)
        return ended_together(running), hit


class FullStarts(Kills):
    """Kills of processes that are started as a user does, also while Python imports."""

    title = "random kills of trainings and packing that a shell starts, then resumed"
    share = 0.5

    def prepare(self, folder: Path) -> None:
        """Also how long Python takes to start."""
        super().prepare(folder)
        began = time.monotonic()
        ended_together(started_by_shell(["train", "lenet300", "--help"], self._output))
        self._start = time.monotonic() - began

    def attempt(self, draw: Random) -> str:
        """Interrupts a command of any kind."""
        return self._attempted(draw, draw.choice([*TRAININGS, *MAKINGS]), started_by_shell)

    def _interrupted(
        self, draw: Random, words: list[str], begin: Begin, seconds: float
    ) -> tuple[list[Ended], bool]:
        return super()._interrupted(draw, words, begin, seconds + self._start)


class PairKills(Kills):
    """Kills of one of two processes."""

    title = "random kills of one of two processes (gloo), then resumed"
    share = 1.0

    def attempt(self, draw: Random) -> str:
        """Interrupts a training in two processes."""
        return self._attempted(draw, draw.choice(list(PAIRS)), forked_pair)


class TorchrunKills(FullStarts):
    """Kills of one of two processes that torchrun starts."""

    title = "random kills of one of two processes that torchrun starts, then resumed"
    share = 0.5

    def attempt(self, draw: Random) -> str:
        """Interrupts a training in two processes."""
        return self._attempted(draw, draw.choice(list(PAIRS)), started_by_torchrun)

    def _problems(self, done: Ended) -> str:
        """If one of its processes has failed, torchrun shows a traceback that is not ours."""
        return "" if "ChildFailedError" in done.text else problems(done)


class FullDisks(Interruptions):
    """Files that cannot grow beyond some size, as on a full disk."""

    title = "a full disk at a random file, then resumed with space"
    share = 1.0

    def _interrupted(
        self, draw: Random, words: list[str], begin: Begin, seconds: float
    ) -> tuple[list[Ended], bool]:
        limit = round(2 ** draw.uniform(6, 22))
        done = ended(started(words, self._output, file_limit=limit), self._output)
        return [done], done.status != 0


INTERRUPTIONS: dict[str, Attack] = {
    "kills": Kills(),
    "full_starts": FullStarts(),
    "pairs": PairKills(),
    "torchrun": TorchrunKills(),
    "disks": FullDisks(),
}


def _started_workers(running: list[Running]) -> list[int]:
    """The processes of torchrun, once it has started them; none if it has ended before."""
    while not _one_ended(running):
        if len(found := workers(running[0].pid)) > 1:
            return found
        time.sleep(0.002)
    return []


def _one_ended(running: list[Running]) -> bool:
    return any(has_ended(each.pid) for each in running)


def _content(folder: Path) -> dict[str, bytes]:
    """What must be the same: networks, other files, and the record without times."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.name == "record.json":
            value = json.loads(path.read_text())
            for word in ("seconds", "command", "checksum"):
                value.pop(word, None)
            found[name] = json.dumps(value).encode()
        elif path.name == "report.html":
            found[name] = b"is there"
        elif path.is_file() and OTHERS.isdisjoint(path.parts) and path.name != ".lock":
            found[name] = path.read_bytes()
    return found
