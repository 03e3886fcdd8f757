"""Makes the finished networks of all members, with their records."""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from sparsegate.graph import remove_dead_paths
from sparsegate_lab.record import Record
from sparsegate_lab.train import (
    count_biases,
    count_layers,
    count_sizes,
    empty_network,
    machine,
    versions,
)

from .loop import ManyLoop
from .reading import accuracies


def finished(loop: ManyLoop, command: str) -> list[tuple[nn.Module, Record]]:
    """Every member's ordinary network, on the CPU, with its record; reads the test set once."""
    states = loop.stack.finished()
    models = [_network(loop, states, index) for index in range(len(loop.members))]
    whole = {
        name: torch.stack([model.state_dict()[name] for model in models]).to(loop.device)
        for name in states
    }
    scores = {
        name: accuracies(loop.stack, whole, split, loop.normalise)
        for name, split in loop.splits.items()
    }
    return [
        (
            model,
            _record(
                loop, index, model, scores["validation"][index], scores["test"][index], command
            ),
        )
        for index, model in enumerate(models)
    ]


def _network(loop: ManyLoop, states: dict[str, Tensor], index: int) -> nn.Module:
    member = loop.members[index]
    model = empty_network(member.run, loop.stack.num_classes)
    model.load_state_dict({name: each[index].cpu() for name, each in states.items()})
    if member.most is not None:
        remove_dead_paths(model, loop.example)
    return model


def _record(
    loop: ManyLoop, index: int, model: nn.Module, validation: float, test: float, command: str
) -> Record:
    member = loop.members[index]
    num_biases, biases_kept = count_biases(model)
    return Record(
        name=member.name,
        run=member.run.to_json(),
        command=command or " ".join(sys.argv),
        machine=machine() | {"processes": 1, "members": len(loop.members)},
        versions=versions(),
        layers=count_layers(model),
        num_biases=num_biases,
        biases_kept=biases_kept,
        validation=validation,
        test=test,
        epochs=tuple(loop.epochs[index]),
        seconds=round(loop.seconds, 1),
        notes=(*member.about(), *_price(loop, index), *loop.notes[index]),
        sizes=count_sizes(model),
        first_gates=loop.first_gates[index],
    )


def _price(loop: ManyLoop, index: int) -> tuple[str, ...]:
    """The note on the price at which steering ended."""
    member = loop.members[index]
    if member.most is None:
        return ()
    price = float(loop.stack.factor[index]) * member.run.method.penalty.count
    return (f"steered to that number, the price ended at {price:.4g}",)
