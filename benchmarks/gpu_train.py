"""Trains the recipes for the images at hand, on a GPU, within a time.

    python benchmarks/gpu_train.py --data data --out results --limit 900

DATA is what `device_data.py unpack` made. Every worker is a process that takes the next run of its
network: the dense baseline of a seed first, then what begins with it, seed after seed. What would
not end within the limit is not begun. OUT gets a study of every recipe, with all seeds that have
ended so far. Workers come one after the other, unless told to come at once. Do not share the GPU by
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: with it, cuBLAS (torch 2.11, H200) gave NaN for finite inputs in
large layers in bf16.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
import traceback
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from deadline import Deadline, LateError

from sparsegate_lab.recipes import RECIPES
from sparsegate_lab.record import Epoch, Record
from sparsegate_lab.study import Study
from sparsegate_lab.train import DivergedError, Run, train


@dataclass(frozen=True)
class Plan:
    """The recipes of one network, whose dense form also teaches those that begin with it."""

    dense: str
    first: str
    """File with the convolutions that the dense network begins with, if there is one."""
    wanted: tuple[str, ...]
    """With every seed."""
    more: tuple[str, ...] = ()
    """If there is time left."""


PLANS = {
    "alexnet": Plan(
        "alexnet-imagenette-dense",
        "alexnet_features.safetensors",
        ("alexnet-imagenette", "alexnet-imagenette-36x"),
        ("alexnet-imagenette-100x", "alexnet-imagenette-300x"),
    ),
    "vgg16": Plan(
        "vgg16-imagenette-dense",
        "vgg16_features.safetensors",
        ("vgg16-imagenette", "vgg16-imagenette-34x"),
        ("vgg16-imagenette-100x", "vgg16-imagenette-300x"),
    ),
    "cifar10": Plan(
        "vgg16-cifar10-dense",
        "",
        ("vgg16-cifar10-25x", "vgg16-cifar10-100x", "vgg16-cifar10-1000x"),
    ),
}
COMMAND = "python benchmarks/gpu_train.py --data data --runs runs --out results"
PATIENCE, CHANCE = 3, 15.0  # epochs, and an accuracy that is hardly above chance
TOLD = 10  # of so many epochs one is told about
ASIDE = 12.0  # seconds before the first epoch and after the last


@dataclass(frozen=True)
class Task:
    """What all workers know."""

    data: Path
    runs: Path
    out: Path
    deadline: float
    seeds: tuple[int, ...]
    recipes: tuple[str, ...]
    """Only these, and the dense networks that they begin with; all if there are none."""
    together: tuple[str, ...]
    """Those that the dense networks of all seeds teach as one, and not only their own."""
    short: bool
    """Only tries whether everything works: two epochs of small batches."""


@dataclass(frozen=True)
class Job:
    """A recipe with a seed."""

    plan: Plan
    recipe: str
    seed: int

    @property
    def dense(self) -> Job:
        """The job that makes what it begins with: itself, if it is the dense one."""
        return Job(self.plan, self.plan.dense, self.seed)

    def teachers(self, task: Task) -> tuple[Job, ...]:
        """The dense jobs that make its teachers."""
        seeds = task.seeds if self.recipe in task.together else (self.seed,)
        return tuple(Job(self.plan, self.plan.dense, seed) for seed in seeds)

    def done(self, task: Task) -> Path:
        """Where its record will lie."""
        return task.runs / f"{self.recipe}.{self.seed}.json"

    def claim(self, task: Task) -> bool:
        """Takes the job, unless another worker has it."""
        try:
            self.done(task).with_suffix(".claim").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def fresh(self, task: Task) -> Run[Any]:
        """The recipe with the seed."""
        run = dataclasses.replace(RECIPES[self.recipe](), seed=self.seed)
        short = {"epochs": 2, "batch_size": 8, "precision": "fp32", "compile": False}
        return dataclasses.replace(run, **short) if task.short else run

    def run(self, task: Task, *, pace: float = 1.0) -> Run[Any]:
        """The run, with the weights that it begins with and a part of its learning rate."""
        run = self.fresh(task)
        if self == self.dense:
            head = ("classifier.*",)
            first = str(task.data / self.plan.first)
            return (
                dataclasses.replace(run, weights=first, new_head=head) if self.plan.first else run
            )
        folders = {
            each: str(task.runs / each.run(task).name)
            for each in (self.dense, *self.teachers(task))
        }
        taught = dataclasses.replace(
            run.distil, teacher=",".join(folders[each] for each in self.teachers(task))
        )
        return dataclasses.replace(
            run, lr=pace * run.lr, weights=folders[self.dense], distil=taught
        )


class Dead(Exception):  # noqa: N818
    """The network says the same of every image."""


class Limit(Deadline):
    """Ends a run when the time is over, or when the network has not learned anything for long.

    Says how it goes.
    """

    def __init__(self, end: float, name: str) -> None:
        super().__init__(end)
        self.name, self.start = name, time.time()

    def measured(self, epoch: Epoch) -> None:
        super().measured(epoch)
        if epoch.epoch % TOLD == 1:
            at = f"epoch {epoch.epoch} after {time.time() - self.start:.0f} s"
            print(f"{self.name}: {at}, {epoch.validation:.2f} %, {epoch.kept:,} kept", flush=True)
        if epoch.epoch > PATIENCE and epoch.validation < CHANCE:
            raise Dead(f"{epoch.validation:.2f} % after epoch {epoch.epoch}, {epoch.kept:,} kept")


def jobs(plan: Plan, task: Task) -> list[Job]:
    """All runs of a network: first what is wanted, seed after seed."""
    wanted = [
        Job(plan, recipe, seed) for seed in task.seeds for recipe in (plan.dense, *plan.wanted)
    ]
    more = [Job(plan, recipe, seed) for seed in task.seeds for recipe in plan.more]
    return [
        job
        for job in wanted + more
        if not task.recipes or job.recipe in (plan.dense, *task.recipes)
    ]


def work(plan: Plan, task: Task) -> None:
    """Does jobs until none is left or the time is over."""
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(2)
    left, pace = jobs(plan, task), 0.0
    while left:
        left = [
            job
            for job in left
            if time.time() + ASIDE + pace * job.fresh(task).epochs < task.deadline
        ]
        job = _next(left, task)
        if job is None:
            time.sleep(0.5)
            continue
        try:
            pace = max(pace, _do(job, task))
        except LateError as error:
            print(f"{job.recipe} {job.seed}: {error}", flush=True)
            return
        except Exception:  # the other runs go on
            traceback.print_exc()


def _next(left: list[Job], task: Task) -> Job | None:
    """The first job whose dense networks are there and that nobody has.

    Those that others have leave the list.
    """
    for job in list(left):
        if job == job.dense or all(each.done(task).exists() for each in job.teachers(task)):
            left.remove(job)
            if job.claim(task):
                return job
    return None


def _do(job: Job, task: Task) -> float:
    """Trains, and returns the seconds of an epoch.

    A network that dies gets a smaller learning rate.
    """
    torch.compiler.reset()  # it would stop to compile after a few networks of one kind
    for pace in (1.0, 0.3, 0.1):
        run, watch = job.run(task, pace=pace), Limit(task.deadline, f"{job.recipe} {job.seed}")
        try:
            record = train(
                run, folder=task.runs, watch=watch, command=COMMAND, save_every=10**6, pack=False
            )
            break
        except (DivergedError, Dead) as error:
            print(f"{job.recipe} {job.seed}, {pace} of the learning rate: {error}", flush=True)
            if (
                2 * time.time() - watch.start > task.deadline
            ):  # it would take at least as long again
                return 0.0
    else:
        return 0.0
    record.save(job.done(task))
    print(f"{job.recipe} {job.seed}: {_told(record)}", flush=True)
    return record.seconds / len(record.epochs)


def _told(record: Record) -> str:
    return (
        f"validation {record.validation:.2f} %, test {record.test:.2f} %, {record.rate:.1f}x, "
        f"{record.seconds:.0f} s in {len(record.epochs)} epochs"
    )


def write_studies(plan: Plan, task: Task) -> None:
    """A study of every recipe that has a record."""
    found: dict[str, list[Record]] = {}
    for job in jobs(plan, task):
        if job.done(task).exists():
            found.setdefault(job.recipe, []).append(Record.load(job.done(task)))
    for recipe, records in found.items():
        title = (RECIPES[recipe].__doc__ or recipe).strip()
        together = f" --together {recipe}" if recipe in task.together else ""
        command = f"{COMMAND} --recipes {recipe}{together}"
        Study(title, command, tuple(records)).save(task.out / f"{recipe}.json")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workers",
        nargs="+",
        choices=list(PLANS),
        default=list(PLANS),
        help="one process for each",
    )
    parser.add_argument("--at-once", action="store_true", help="all workers at the same time")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--recipes", nargs="*", default=[], help="only these")
    parser.add_argument(
        "--together", nargs="*", default=[], help="those that the dense networks of all seeds teach"
    )
    parser.add_argument("--short", action="store_true", help="only try whether everything works")
    args = parser.parse_args()
    os.environ.setdefault("SPARSEGATE_DATA", str(args.data))
    os.environ.setdefault("SPARSEGATE_CACHE", str(args.runs / "cache"))
    task = Task(
        args.data,
        args.runs,
        args.out,
        time.time() + args.limit,
        tuple(args.seeds),
        tuple(args.recipes),
        tuple(args.together),
        args.short,
    )
    for folder in (args.runs, args.out):
        folder.mkdir(parents=True, exist_ok=True)
    workers = [
        get_context("spawn").Process(target=work, args=(PLANS[kind], task)) for kind in args.workers
    ]
    for group in [workers] if args.at_once else [[worker] for worker in workers]:
        for worker in group:
            worker.start()
        while any(worker.is_alive() for worker in group):
            time.sleep(5.0)
            for kind in set(args.workers):
                write_studies(PLANS[kind], task)


if __name__ == "__main__":
    main()
