"""Searches recipes for small LeNets on the validation split: python benchmarks/many_search.py first --out DIR.

The test set is not read here. Every row says what was tried and what came of it; the budget is the
sum over all rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from many_tiles import check, tune
from search_rounds import ROUNDS, TEACHERS, of_epochs

from sparsegate.distil import Ensemble
from sparsegate.graph import remove_dead_paths
from sparsegate_lab.batched import ManyLoop, ManyWatcher, Member, Opinion
from sparsegate_lab.batched.update import Stacked
from sparsegate_lab.data import Dataset, Split, mnist
from sparsegate_lab.train import empty_network

WIDEST = 2  # pixels that images are moved by at the most: the teachers are asked about all of them
SHRUNK, SHRUNK_LATE = 0.6, 0.45  # what an epoch takes on average, of what the first one takes


class Clock(ManyWatcher):
    """Prints an epoch now and then."""

    def __init__(self) -> None:
        self.began_at = time.perf_counter()

    def measured(self, epochs: Any) -> None:
        if epochs[0].epoch in (1, 2, 5) or epochs[0].epoch % 20 == 0:
            best = max(each.validation for each in epochs)
            kept = " ".join(str(each.kept) for each in epochs)
            took = time.perf_counter() - self.began_at
            print(
                f"epoch {epochs[0].epoch}: {took:.1f} s, best {best:.2f}, kept {kept}", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("round", choices=list(ROUNDS))
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument(
        "--seconds",
        type=float,
        nargs="*",
        default=[],
        help="for each batch of members, with fewer epochs if need be",
    )
    parser.add_argument("--tune", action="store_true", help="time the kernels' tiles first")
    parser.add_argument(
        "--teachers", type=Path, help="networks of an earlier call, to leave their training out"
    )
    parser.add_argument("--images", type=int, help="train on so few, to try the command out")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = mnist()
    if options.images:
        data = dataclasses.replace(
            data,
            train=data.train.part(0, options.images),
            validation=data.validation.part(0, options.images),
        )
    if options.tune:
        check()
        tune()
    search = Search(data, device, teachers(data, device, options.out, options.teachers))
    for place, (name, members) in enumerate(ROUNDS[options.round].items()):
        seconds = options.seconds[place] if place < len(options.seconds) else None
        members = members[:: len(members) // 3] if options.images else members
        search.batch(f"{options.round}: {name}", members, seconds)
        (options.out / f"search-{options.round}.json").write_text(json.dumps(search.rows, indent=0))


class Search:
    """Batches of members, one after the other, and the rows about them."""

    def __init__(self, data: Dataset, device: torch.device, teacher: torch.nn.Module) -> None:
        self.data, self.device = data, device
        self.opinion = Opinion.of(teacher, data.train.to(device), data.normalise, WIDEST)
        self.rows: list[dict[str, Any]] = []
        self.best: dict[int, tuple[float, dict[str, Stacked], int]] = {}

    def batch(self, name: str, members: list[Member], seconds: float | None) -> None:
        """Trains members, those of a late batch on the best masks that were found before."""
        began = time.perf_counter()
        late = name.endswith("late")
        members = members * len(self.best) if late else members
        if seconds is not None:
            members = of_epochs(members, affordable(self._loop(members), seconds, late=late))
        loop = self._loop(members, Clock())
        if late:
            self._begin_(loop)
        loop.train()
        took = time.perf_counter() - began
        print(
            f"{name}: {len(members)} members, {members[0].run.epochs} epochs, {took:.1f} s",
            flush=True,
        )
        trained, _ = judged(loop, self.data.train.to(self.device))
        _, losses = judged(loop, loop.splits["validation"])
        for place in range(len(members)):
            self.rows.append(row(name, loop, place, took, trained[place], losses[place]))
            self._remember(loop, place, self.rows[-1])

    def _loop(self, members: list[Member], watch: ManyWatcher | None = None) -> ManyLoop:
        return ManyLoop(members, self.data, self.device, opinion=self.opinion, watch=watch)

    def _begin_(self, loop: ManyLoop) -> None:
        """Gives the members the best networks of each size, in place, the first size to the first of them."""
        share = len(loop.members) // len(self.best)
        for place in range(len(loop.members)):
            _, params, source = self.best[sorted(self.best)[place // share]]
            for name, each in loop.stack.params.items():
                each.weight[place] = params[name].weight[source]
                if each.gate is not None:
                    each.gate[place] = params[name].gate[source]

    def _remember(self, loop: ManyLoop, place: int, found: dict[str, Any]) -> None:
        """Keeps the network of its size whose loss on the validation split is lowest."""
        most, loss = found["most"], found["validation_loss"]
        if loss < self.best.get(most, (math.inf,))[0]:
            self.best[most] = (loss, loop.stack.params, place)


def affordable(loop: ManyLoop, seconds: float, *, late: bool) -> int:
    """As many epochs as the time allows, at the most the members' own."""
    loop._epoch(0, loop.inputs.drawn(0))  # records the steps
    began = time.perf_counter()
    loop._epoch(0, loop.inputs.drawn(0))
    loop._measure(1)
    epoch = (time.perf_counter() - began) * (SHRUNK_LATE if late else SHRUNK)
    epochs = max(2, min(loop.members[0].run.epochs, int(seconds / epoch)))
    print(f"{len(loop.members)} members: {epoch:.3f} s an epoch, {epochs} epochs", flush=True)
    return epochs


@torch.no_grad()
def judged(loop: ManyLoop, split: Split) -> tuple[list[float], list[float]]:
    """Each member's percentage of right labels, and its mean loss by them."""
    weights, members = loop.stack.finished(), len(loop.members)
    right, loss = torch.zeros(2, members, dtype=torch.float64, device=loop.device)
    for begin in range(0, len(split), 500):
        part = split.part(begin, begin + 500)
        logits = loop.stack.run(loop.normalise(part.images).repeat(members, 1, 1, 1), weights).view(
            members, -1, 10
        )
        right += (logits.argmax(2) == part.labels).sum(1)
        loss -= (
            logits.log_softmax(2)[:, torch.arange(len(part), device=loop.device), part.labels]
            .double()
            .sum(1)
        )
    return (100 * right / len(split)).tolist(), (loss / len(split)).tolist()


def row(
    name: str, loop: ManyLoop, place: int, seconds: float, trained: float, loss: float
) -> dict[str, Any]:
    member = loop.members[place]
    model = empty_network(member.run)
    model.load_state_dict({key: value[place].cpu() for key, value in loop.stack.finished().items()})
    remove_dead_paths(model, loop.example)
    alive = {key: int(torch.count_nonzero(each)) for key, each in model.named_parameters()}
    run = member.run.to_json()
    beside = {key: value for key, value in vars(member).items() if key not in ("run", "late")}
    weights = sum(alive[key] for key in alive if key.endswith("weight"))
    last = loop.epochs[place]
    before = last[
        max(0, min(len(last), member.frozen_at) - 1)
    ]  # the last epoch with gates that move
    after = last[min(len(last) - 1, member.frozen_at)]
    found = {
        "round": name,
        "run": run,
        **beside,
        "late": vars(member.late),
        "kept": last[-1].kept,
        "alive": weights,
        "layers": alive,
        "validation": last[-1].validation,
        "mean_of_last_5": sum(each.validation for each in last[-5:]) / 5,
        "validation_loss": loss,
        "training": trained,
        "loss": last[-1].loss,
        "price": float(loop.stack.factor[place]) * run["method"]["penalty"]["count"],
        "at_freeze": before.kept,
        "before_cut": [before.validation, before.loss],
        "after_cut": [after.validation, after.loss],
        "notes": loop.notes[place],
        "seconds_of_batch": round(seconds, 1),
        "members": len(loop.members),
    }
    method = run["method"]
    print(
        f"{member.most} p{found['price']:.0f} lr{run['lr']:g} g{method.get('gate_lr'):g} "
        f"f{member.freeze:g} s{run['shift']} {member.late.lr} #{run['seed']} "
        f"{before.kept}>{weights}: "
        f"v{before.validation:.2f}>{after.validation:.2f}>{found['validation']:.2f} "
        f"{found['mean_of_last_5']:.2f} {loss:.4f} t{trained:.3f} "
        f"{before.loss:.4f}>{after.loss:.4f}>{found['loss']:.4f}",
        flush=True,
    )
    return found


def teachers(data: Dataset, device: torch.device, out: Path, known: Path | None) -> torch.nn.Module:
    """Dense networks, trained together, as one teacher."""
    if known is not None:
        states = {name: each.float() for name, each in safetensors.torch.load_file(known).items()}
    else:
        loop = ManyLoop(TEACHERS, data, device, watch=Clock())
        loop.train()
        print(
            "teachers:",
            [each[-1].validation for each in loop.epochs],
            f"{loop.seconds:.1f} s",
            flush=True,
        )
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
