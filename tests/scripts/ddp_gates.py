"""Trains gated models on two processes with DistributedDataParallel; each process writes what it saw as JSON.

Started by torch.distributed.run with a folder as its argument.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sparsegate.gates import Census, Draw, Sample, Threshold, finish, gate, gates, weights
from sparsegate.optimizers import GateSGD
from sparsegate.price import Penalty
from sparsegate.target import Target

STEPS = 3
LONG = 40


def network(draw: Draw) -> nn.Sequential:
    torch.manual_seed(0)
    model = gate(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), draw=draw)
    for each in gates(model).values():
        nn.init.uniform_(each.gate, 0.3, 0.8)
    return model


def batch() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(1)
    return torch.randn(8, 6, generator=source), torch.randn(8, 3, generator=source)


def share(rank: int) -> tuple[Tensor, Tensor]:
    inputs, targets = batch()
    return inputs[rank::2], targets[rank::2]


def state(model: nn.Module) -> list[float]:
    return torch.cat([each.gate.detach().flatten() for each in gates(model).values()]).tolist()


def mask(model: nn.Module) -> list[bool]:
    return torch.cat([(each.gate > 0.5).flatten() for each in gates(model).values()]).tolist()


def trained(model: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, list]:
    """Gates and masks after each step, and the weights after the last."""
    optimizers = [
        GateSGD(model, lr=0.5, penalty=Penalty(count=1.0)),
        torch.optim.SGD(weights(model), lr=0.1),
    ]
    seen: dict[str, list] = {"gates": [], "masks": []}
    for _ in range(STEPS):
        model.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
        seen["gates"].append(state(model))
        seen["masks"].append(mask(model))
    seen["weights"] = torch.cat([each.detach().flatten() for each in weights(model)]).tolist()
    return seen


def sampled(rank: int) -> dict[str, list]:
    model = DistributedDataParallel(network(Sample()))
    torch.manual_seed(100 + rank)
    drawn: list[bool] = []
    for each in gates(model).values():
        each.register_forward_hook(lambda *found: drawn.extend((found[2] != 0).flatten().tolist()))
    return {**trained(model, *share(rank)), "drawn": drawn}


def aimed(model: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, object]:
    """What training with a target leaves."""
    moving = GateSGD(model, target=Target(weights=20), steps=LONG)
    settling = torch.optim.SGD(weights(model), lr=0.1)
    for _ in range(LONG):
        model.zero_grad()
        (model(inputs) - targets).square().mean().backward()
        settling.step()
        moving.step()
    return {"mask": mask(model), "control": moving.state_dict()["param_groups"][0]["control"]}


def refusal(model: nn.Module) -> str:
    try:
        gate(model)
    except ValueError as error:
        return str(error)
    return "none"


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(network(Threshold()))
    found = {
        "threshold": trained(model, *share(rank)),
        "sample": sampled(rank),
        "alone": trained(network(Threshold()), *batch()),
        "aimed": aimed(DistributedDataParallel(network(Threshold())), *share(rank)),
        "aimed alone": aimed(network(Threshold()), *batch()),
        "refusal": refusal(DistributedDataParallel(nn.Linear(2, 2))),
        "names": list(gates(model)),
        "kept": Census(model).take().kept,
        "gap to finished": float(
            (model.eval()(batch()[0]) - finish(model)(batch()[0])).abs().max().detach()
        ),
        "finished": list(finish(DistributedDataParallel(network(Threshold()))).state_dict()),
    }
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
