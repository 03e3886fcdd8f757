"""The finished networks of many members, each with its record."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparsegate.graph import remove_dead_paths
from sparsegate_lab.record import Record
from sparsegate_lab.train import empty_network, make_record

from .loop import ManyLoop
from .reading import accuracies


def finished(loop: ManyLoop, command: str) -> list[tuple[nn.Module, Record]]:
    """Every member's ordinary network, on the CPU, with its record; the test set is read here, once."""
    states = loop.stack.finished()
    models = [_network(loop, states, place) for place in range(len(loop.members))]
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
                loop, place, model, scores["validation"][place], scores["test"][place], command
            ),
        )
        for place, model in enumerate(models)
    ]


def _network(loop: ManyLoop, states: dict[str, Tensor], place: int) -> nn.Module:
    member = loop.members[place]
    model = empty_network(member.run, loop.stack.num_classes)
    model.load_state_dict({name: each[place].cpu() for name, each in states.items()})
    if member.most is not None:
        remove_dead_paths(model, loop.example)
    return model


def _record(
    loop: ManyLoop, place: int, model: nn.Module, validation: float, test: float, command: str
) -> Record:
    member = loop.members[place]
    return make_record(
        member.run,
        model,
        name=member.name,
        command=command,
        processes={"processes": 1, "members": len(loop.members)},
        accuracies={"validation": validation, "test": test},
        epochs=loop.epochs[place],
        seconds=loop.seconds,
        notes=(*member.about(), *_price(loop, place), *loop.notes[place]),
        first_gates=loop.first_gates[place],
    )


def _price(loop: ManyLoop, place: int) -> tuple[str, ...]:
    """The price that steering came to."""
    member = loop.members[place]
    if member.most is None:
        return ()
    price = float(loop.stack.factor[place]) * member.run.method.penalty.count
    return (f"steered to that number, the price ended at {price:.4g}",)
