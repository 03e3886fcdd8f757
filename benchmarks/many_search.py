"""Searches recipes for small LeNets on the validation split: python benchmarks/many_search.py first --out DIR.

The test set is not read here. Every row says what was tried and what came of it; the budget is the sum over all rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from many_tiles import check, tune
from search_rounds import ROUNDS, TEACHERS

from sparsegate.compress import remove_dead_paths
from sparsegate.data import Dataset, mnist
from sparsegate.many import Ensemble, ManyLoop, ManyWatcher, Member, Opinion
from sparsegate.train import empty_network


class Clock(ManyWatcher):
    """Prints an epoch now and then."""

    def __init__(self) -> None:
        self.began_at = time.perf_counter()

    def measured(self, epochs: Any) -> None:
        if epochs[0].epoch in (1, 2, 5) or epochs[0].epoch % 20 == 0:
            best = max(each.validation for each in epochs)
            print(f"epoch {epochs[0].epoch}: {time.perf_counter() - self.began_at:.1f} s, best {best:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("round", choices=list(ROUNDS))
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument(
        "--seconds", type=float, help="for each batch of members; fewer epochs if they would take longer"
    )
    parser.add_argument("--tune", action="store_true", help="time the kernels' tiles first")
    parser.add_argument("--teachers", type=Path, help="networks of an earlier call, to leave their training out")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = mnist()
    if options.tune:
        check()
        tune()
    teacher = teachers(data, device, options.out, options.teachers)
    rows: list[dict[str, Any]] = []
    for name, members in ROUNDS[options.round].items():
        if options.seconds:
            members = affordable(members, data, device, options.seconds)
        rows += searched(f"{options.round}: {name}", members, data, device, teacher)
        (options.out / f"search-{options.round}.json").write_text(json.dumps(rows, indent=0))


def affordable(members: list[Member], data: Dataset, device: torch.device, seconds: float) -> list[Member]:
    """The members with as many epochs as the time allows, at the most their own."""
    short = [dataclasses.replace(each, share=0.0, run=dataclasses.replace(each.run, epochs=2)) for each in members]
    loop = ManyLoop(short, data, device)
    loop.train()
    epoch = loop.seconds / 2
    epochs = min(members[0].run.epochs, int(seconds / epoch))
    print(f"{len(members)} members: {epoch:.3f} s an epoch, {epochs} epochs", flush=True)
    return [dataclasses.replace(each, run=dataclasses.replace(each.run, epochs=epochs)) for each in members]


def searched(
    name: str, members: list[Member], data: Dataset, device: torch.device, teacher: torch.nn.Module
) -> list[dict[str, Any]]:
    """One row for every member."""
    began = time.perf_counter()
    asked = any(member.share for member in members)
    widest = max(member.run.shift for member in members)
    opinion = Opinion.of(teacher, data.train.to(device), data.normalise, widest) if asked else None
    loop = ManyLoop(members, data, device, opinion=opinion, watch=Clock())
    loop.train()
    seconds = time.perf_counter() - began
    print(f"{name}: {len(members)} members, {seconds:.1f} s", flush=True)
    return [row(name, loop, place, seconds) for place in range(len(members))]


def row(name: str, loop: ManyLoop, place: int, seconds: float) -> dict[str, Any]:
    member = loop.members[place]
    model = empty_network(member.run)
    model.load_state_dict({key: value[place].cpu() for key, value in loop.stack.finished().items()})
    remove_dead_paths(model, loop.example)
    alive = {key: int(torch.count_nonzero(each)) for key, each in model.named_parameters()}
    run = member.run.to_json()
    beside = {key: value for key, value in vars(member).items() if key != "run"}
    weights = sum(alive[key] for key in alive if key.endswith("weight"))
    last = loop.epochs[place]
    found = {
        "round": name,
        "run": run,
        **beside,
        "kept": last[-1].kept,
        "alive": weights,
        "layers": alive,
        "validation": last[-1].validation,
        "late": sum(each.validation for each in last[-5:]) / 5,
        "loss": last[-1].loss,
        "at_freeze": last[min(len(last), round(member.freeze * len(last))) - 1].kept,
        "notes": loop.notes[place],
        "seconds_of_batch": round(seconds, 1),
        "members": len(loop.members),
    }
    method = run["method"]
    print(
        f"price {method.get('penalty', {}).get('count')} lr {run['lr']} wd {run['weight_decay']} shift {run['shift']} "
        f"gate_lr {method.get('gate_lr')} freeze {method.get('freeze')} share {member.share} T {member.temperature} "
        f"avg {member.average} most {member.most} seed {run['seed']}: kept {found['kept']} alive {weights} "
        f"val {found['validation']:.2f} late {found['late']:.3f}",
        flush=True,
    )
    return found


def teachers(data: Dataset, device: torch.device, out: Path, known: Path | None) -> torch.nn.Module:
    """Dense networks, trained together, as one teacher."""
    if known is not None:
        states = safetensors.torch.load_file(known)
    else:
        loop = ManyLoop(TEACHERS, data, device, watch=Clock())
        loop.train()
        print("teachers:", [each[-1].validation for each in loop.epochs], f"{loop.seconds:.1f} s", flush=True)
        states = {name: each.cpu().contiguous() for name, each in loop.stack.finished().items()}
        safetensors.torch.save_file(states, out / "teachers.safetensors")
    models = []
    for place in range(len(next(iter(states.values())))):
        model = empty_network(TEACHERS[0].run)
        model.load_state_dict({name: each[place] for name, each in states.items()})
        models.append(model.to(device))
    ensemble = Ensemble(*models).eval()
    split = data.validation.to(device)
    with torch.no_grad():
        right = (ensemble(data.normalise(split.images)).argmax(1) == split.labels).float().mean()
    print(f"ensemble of {len(models)}: validation {100 * float(right):.2f}", flush=True)
    return ensemble


if __name__ == "__main__":
    main()
