"""Compiles gated models as one graph each and prints, as JSON, how far they are from eager.

Its arguments are the cases: `few` for those that the fast tests look at, `rest` for the others.

A process of its own, because torch.compile cannot trace the checks of signatures that the tests
install.
"""

import copy
import json
import sys

import torch
from torch import Tensor, nn

from sparsegate.gates import Constant, Draw, Sample, Threshold, finish, gate, gates


class Tied(nn.Module):
    """Word vectors that are also the output layer's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(6, 4), nn.Linear(4, 6)
        self.head.weight = self.words.weight

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.words(words))


class Last(nn.Module):
    """The outputs of a recurrent layer without its state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 3)

    def forward(self, words: Tensor) -> Tensor:
        return self.gru(words)[0]


MODELS = {
    "dense": lambda: (
        nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)),
        torch.randn(5, 8),
    ),
    "convolution": lambda: (
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2)),
        torch.randn(2, 1, 5, 5),
    ),
    "tied": lambda: (Tied(), torch.tensor([[0, 3, 5]])),
    "transformer": lambda: (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), torch.randn(3, 2, 4)),
    "recurrent": lambda: (Last(), torch.randn(3, 2, 4)),
}


def gated(name: str, draw: Draw) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    for each in gates(gate(model, draw=draw)).values():
        nn.init.uniform_(each.gate)
        if (
            name == "recurrent"
        ):  # eager draws its weights more often than it uses them, so random masks would differ
            each.gate.data.round_()
    return model, inputs


def run(model: nn.Module, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Output, and the gradient of every parameter."""
    torch.manual_seed(3)
    output = model(inputs)
    parameters = list(model.parameters())
    return output.detach(), list(torch.autograd.grad(output.pow(3).sum(), parameters))


def gaps(name: str, draw: Draw, backend: str, *, training: bool) -> dict[str, float]:
    model, inputs = gated(name, draw)
    model.train(training)
    torch._dynamo.reset()
    output, grads = run(model, inputs)
    compiled_output, compiled_grads = run(
        torch.compile(model, fullgraph=True, backend=backend), inputs
    )
    of_grads = [
        float((one - other).abs().max()) for one, other in zip(grads, compiled_grads, strict=True)
    ]
    largest = max(float(grad.abs().max()) for grad in grads)
    return {
        "output": float((output - compiled_output).abs().max()),
        "gradient": max(of_grads),
        "largest gradient": largest,
    }


def draws_anew() -> bool:
    model = gate(nn.Linear(64, 1), draw=Sample(), start=Constant(0.5))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    return not torch.equal(compiled(torch.ones(1, 64)), compiled(torch.ones(1, 64)))


def follows_a_gate() -> bool:
    model, inputs = gated("dense", Threshold())
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    compiled(inputs)
    next(iter(gates(compiled).values())).gate.data.zero_()
    return torch.allclose(compiled(inputs), model(inputs))


@torch.no_grad()
def finished_gap() -> float:
    """Between a compiled gated model in eval and the finished model, as it is and compiled again."""
    model, inputs = gated("dense", Sample())
    compiled = torch.compile(model.eval(), fullgraph=True, backend="aot_eager")
    before = compiled(inputs)
    again = torch.compile(finish(copy.deepcopy(model)), fullgraph=True, backend="aot_eager")
    return max(float((before - after(inputs)).abs().max()) for after in (finish(compiled), again))


def cases(which: str) -> list[tuple[str, Draw, bool]]:
    """The model, the draw and the mode of each; all of the dense network are few."""
    every = [
        (name, draw, training)
        for name in MODELS
        for draw in (Threshold(), Sample())
        for training in (True, False)
    ]
    few = [
        (name, draw, training)
        for name, draw, training in every
        if name == "dense" or training == isinstance(draw, Sample)
    ]
    return few if which == "few" else [case for case in every if case not in few]


def main(which: str) -> None:
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True
    torch._inductor.config.fallback_random = True  # the same random numbers as in eager
    torch._inductor.config.compile_threads = 1
    found: dict[str, object] = {}
    if which == "few":
        found |= {"draws anew": draws_anew(), "follows a gate": follows_a_gate()}
        found |= {"finished": finished_gap()}
    for name, draw, training in cases(which):
        backend = "inductor" if name == "dense" and training else "aot_eager"
        case = f"{name} {type(draw).__name__} {'train' if training else 'eval'}"
        found[case] = gaps(name, draw, backend, training=training)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
