"""Trains a gated model sharded over two processes with fully_shard; each process writes what it saw as JSON.

Started by torch.distributed.run with a folder as its argument.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from sparsegate.gates import Census, Draw, Sample, Threshold, finish, gate, gates, weights
from sparsegate.optimizers import GateSGD
from sparsegate.price import Penalty
from sparsegate.target import Target

STEPS = 3
LONG = 20


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))  # 7 and 3 rows do not halve


def network(draw: Draw) -> nn.Sequential:
    model = gate(plain(), draw=draw)
    for each in gates(model).values():
        nn.init.uniform_(each.gate, 0.3, 0.8)
    return model


def sharded(model: nn.Sequential) -> nn.Sequential:
    mesh = init_device_mesh("cpu", (2,))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def batch() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(1)
    return torch.randn(8, 6, generator=source), torch.randn(8, 3, generator=source)


def train_(model: nn.Module, inputs: Tensor, targets: Tensor) -> list[dict]:
    """A reading after each step."""
    penalty = Penalty(count=1.0, bimodal=0.5)
    optimizers = [GateSGD(model, lr=0.5, penalty=penalty), torch.optim.SGD(weights(model), lr=0.1)]
    census, readings = Census(model), []
    for _ in range(STEPS):
        model.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
        readings.append(vars(census.take()))
    return readings


def aimed(model: nn.Module, inputs: Tensor, targets: Tensor, target: Target) -> dict[str, object]:
    """What training with a target leaves."""
    moving, settling = (
        GateSGD(model, target=target, steps=LONG),
        torch.optim.SGD(weights(model), lr=0.1),
    )
    for _ in range(LONG):
        model.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        settling.step()
        moving.step()
    state = whole(model)
    masks = [state[name].flatten().tolist() for name in state if name.endswith("gate")]
    return {"masks": masks, "control": moving.state_dict()["param_groups"][0]["control"]}


def whole(model: nn.Module) -> dict[str, Tensor]:
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


def message(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return "none"


def difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max(float((value - other[name]).abs().max()) for name, value in one.items())


def sampled(rank: int) -> dict[str, object]:
    """Readings of gates that were drawn with another seed on each process."""
    model = sharded(network(Sample()))
    torch.manual_seed(100 + rank)
    inputs, targets = batch()
    readings = train_(model, inputs[rank::2], targets[rank::2])
    expected = [each.gate.full_tensor().mean() for each in gates(model).values()]
    sizes = [each.gate.numel() for each in gates(model).values()]
    mean = sum(float(value) * size for value, size in zip(expected, sizes, strict=True)) / sum(
        sizes
    )
    return {"readings": readings, "mean gate": mean}


def both(rank: int, target: Target) -> dict[str, object]:
    """Training with a target on a sharded model, and alone."""
    inputs, targets = batch()
    together = aimed(sharded(network(Threshold())), inputs[rank::2], targets[rank::2], target)
    return {"together": together, "alone": aimed(network(Threshold()), inputs, targets, target)}


def compared(rank: int) -> dict[str, object]:
    inputs, targets = batch()
    model, alone = sharded(network(Threshold())), network(Threshold())
    found: dict[str, object] = {
        "readings": train_(model, inputs[rank::2], targets[rank::2]),
        "alone": train_(alone, inputs, targets),
    }
    state = whole(model)
    found["difference"] = difference(state, alone.state_dict())
    found["movement"] = difference(state, network(Threshold()).state_dict())
    found["finish"] = message(lambda: finish(model))
    unsharded = gate(plain())
    unsharded.load_state_dict(state)
    with torch.no_grad():
        found["gap to sharded"] = float(
            (finish(unsharded)(inputs) - model.eval()(inputs)).abs().max()
        )
    found["kept by the finished"] = {
        name: int(unsharded.get_parameter(name).count_nonzero())
        for name in ("0.weight", "2.weight")
    }
    return found


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    found = {
        **compared(rank),
        "sample": sampled(rank),
        "aimed": both(rank, Target(weights=20)),
        "sized": both(rank, Target(bytes=260)),
        "listening": both(rank, Target(weights=20, travel=0.01, listen=True)),
        "gate": message(lambda: gate(sharded(plain()))),
    }
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
