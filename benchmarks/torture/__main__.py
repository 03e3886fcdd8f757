"""Runs the attacks in turn, prints faults as they are found, and writes results/torture.json."""

from __future__ import annotations

import argparse
import functools
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from .attacks import ATTACKS
from .record import Tally, save, summed, write
from .sandbox import draw_of, outcomes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for all attacks together")
    parser.add_argument("--hours", type=float, help="the same in hours")
    parser.add_argument("--seed", type=int, help="drawn and printed unless given")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(ATTACKS),
        metavar="ATTACK",
        help=f"some of {', '.join(ATTACKS)}",
    )
    parser.add_argument(
        "--add", action="store_true", help="add to the counts of an existing record"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with another seed")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument(
        "--replay", metavar="ATTACK/SEED/NUMBER", help="repeat one case, with its traceback"
    )
    options = parser.parse_args()
    if options.replay:
        _replay(options.replay)
        return
    names = options.only or [name for name, attack in ATTACKS.items() if attack.share]
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    seconds = 3600 * options.hours if options.hours else 60 * options.minutes
    if options.jobs > 1:
        _in_parallel(options, names, seed, seconds)
        return
    print(f"seed {seed}, {seconds / 60:g} minutes: {', '.join(names)}", flush=True)
    tallies = {name: Tally(ATTACKS[name].title) for name in names}
    shares = sum(ATTACKS[name].share or 1.0 for name in names)
    for name in names:
        attack = ATTACKS[name]
        own = seconds * (attack.share or 1.0) / shares
        for number, outcome in outcomes(name, attack, seed, options.first, own):
            case = f"{name}/{seed}/{number}"
            if tallies[name].add(case, outcome):
                print(f"{case}: {outcome}", flush=True)
        print(
            f"{name}: {tallies[name].counts.total():,} tried, {len(tallies[name].faults)} kinds of "
            "faults",
            flush=True,
        )
    run = {"seed": seed, "seconds": round(seconds), "attacks": names}
    write(options.results / "torture.json", tallies, run, add=options.add)
    if any(tally.faults for tally in tallies.values()):
        raise SystemExit(1)


def _in_parallel(options: argparse.Namespace, names: list[str], seed: int, seconds: float) -> None:
    """Runs the attacks in several processes, and writes the sum of their records."""
    path = options.results / "torture.json"
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / str(job) for job in range(options.jobs)]
        words = [
            sys.executable,
            "-m",
            __package__,
            "--minutes",
            f"{seconds / 60}",
            "--only",
            *names,
        ]
        jobs = [
            subprocess.Popen([*words, "--seed", str(seed + job), "--results", str(out)])
            for job, out in enumerate(outs)
        ]
        failed = [job for job in jobs if job.wait()]
        found = [out / "torture.json" for out in outs if (out / "torture.json").exists()]
        records = [json.loads(each.read_text()) for each in found]
        if options.add and path.exists():
            records.insert(0, json.loads(path.read_text()))
        if records:
            save(path, functools.reduce(summed, records))
    if failed:
        raise SystemExit(1)


def _replay(case: str) -> None:
    """Tries one case in this process."""
    name, seed, number = case.split("/")
    attack = ATTACKS[name]
    with tempfile.TemporaryDirectory() as folder:
        attack.prepare(Path(folder))
        print(attack.attempt(draw_of(name, int(seed), int(number))))


if __name__ == "__main__":
    main()
