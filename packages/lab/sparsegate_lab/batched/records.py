"""Builds the finished networks of all members and their records."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparsegate.graph import remove_dead_paths
from sparsegate_lab.record import Record
from sparsegate_lab.train import empty_network, make_record

from .loop import ManyLoop
from .reading import accuracies


def finished(loop: ManyLoop, command: str) -> list[tuple[nn.Module, Record]]:
    """Returns every member's network, on the CPU, with its record; reads the test set once."""
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
    return make_record(
        member.run,
        model,
        name=member.name,
        command=command,
        processes={"processes": 1, "members": len(loop.members)},
        accuracies={"validation": validation, "test": test},
        epochs=loop.epochs[index],
        seconds=loop.seconds,
        notes=(*member.about(), *_price(loop, index), *loop.notes[index]),
        first_gates=loop.first_gates[index],
    )


def _price(loop: ManyLoop, index: int) -> tuple[str, ...]:
    """Returns the note on the final price of a steered member."""
    member = loop.members[index]
    if member.most is None:
        return ()
    price = float(loop.stack.factor[index]) * member.run.method.penalty.count
    return (f"steered to that number, the price ended at {price:.4g}",)
