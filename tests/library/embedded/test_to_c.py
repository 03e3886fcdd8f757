"""Networks of every kind compute in C what they compute in PyTorch, within their arena."""

import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import sparsegate as sg

from .conftest import STRICT, Compiled, first_of, outputs_of, sparse

UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize-recover=all")


def difference(found, wanted):
    """The largest difference, as a share of the largest value."""
    pairs = zip(found, wanted, strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def test_c_computes_what_torch_computes(network, tmp_path):
    model, example = network
    compiled = Compiled(model, example, tmp_path, *UNDEFINED)
    for at in (0, 3):
        one = first_of(example, at)
        assert difference(compiled(one), outputs_of(model, one)) < 1e-5


def test_int8_is_near(network, tmp_path):
    model, example = network
    compiled = Compiled(model, example, tmp_path, *UNDEFINED, dtype="int8")
    worst = max(
        difference(compiled(first_of(example, at)), outputs_of(model, first_of(example, at)))
        for at in range(9)
    )
    assert worst < 0.06


def test_the_header_states_the_memory_to_the_byte(tmp_path):
    model = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Linear(3, 2)).eval()
    written = sg.to_c(model, tmp_path / "net.c", example=torch.zeros(1, 4), form="tables")
    # 12 = the three values between the layers, as floats; their function works in place.
    assert written.ram == 12
    # 220 = (12 + 3 + 6 + 2) weights and biases of 4 bytes, and two structures of 64
    assert written.flash == 4 * 23 + 2 * 64
    header = (tmp_path / "net.h").read_text()
    assert "flash: 220 bytes" in header
    assert "RAM:   12 bytes" in header
    assert "#define NET_ARENA 12" in header


def test_int8_takes_a_quarter_of_the_memory(tmp_path):
    model, example = sparse("residual")
    sizes = {}
    for dtype in ("fp32", "int8"):
        made = sg.to_c(model, tmp_path / "net.c", example=example, dtype=dtype, form="tables")
        sizes[dtype] = made.ram
    assert sizes["int8"] < 0.35 * sizes["fp32"]


def test_zeros_are_not_stored(tmp_path):
    model = nn.Linear(1000, 10)
    with torch.no_grad():
        model.weight *= torch.rand_like(model.weight) < 0.02
    written = sg.to_c(model, tmp_path / "net.c", example=torch.zeros(1, 1000), form="tables")
    kept = int(torch.count_nonzero(model.weight))
    assert written.num_weights == kept
    assert written.flash < 5 * kept + 200


def test_the_code_is_c99_and_has_no_memory_of_its_own(network, tmp_path):
    model, example = network
    for dtype in ("fp32", "int8"):
        sg.to_c(model, tmp_path / "net.c", example=example, dtype=dtype, form="tables")
        text = (tmp_path / "net.c").read_text()
        assert set(re.findall(r"#include (\S+)", text)) == {'"net.h"', "<math.h>", "<stdint.h>"}
        words = [
            "gcc",
            *STRICT,
            "-Os",
            "-fno-pie",
            "-c",
            "-o",
            tmp_path / "net.o",
            tmp_path / "net.c",
        ]
        subprocess.run(words, check=True)
        symbols = subprocess.run(["nm", tmp_path / "net.o"], capture_output=True, text=True)
        assert not re.search(r" [bBdDC] ", symbols.stdout)


def test_a_chain_becomes_code_and_everything_else_tables(tmp_path):
    chain = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    assert sg.to_c(chain, tmp_path / "net.c", example=torch.zeros(1, 4)).ram is None
    model, example = sparse("residual")
    assert sg.to_c(model, tmp_path / "net.c", example=example).ram > 0
    large = nn.Linear(300, 100)
    assert sg.to_c(large, tmp_path / "net.c", example=torch.zeros(1, 300)).flash > 100_000


def test_scales_come_from_the_inputs_given_to_calibrate(tmp_path):
    model, small = nn.Linear(4, 2).eval(), torch.rand(50, 4)
    with torch.no_grad():
        model.weight.fill_(1.0)
    near = Compiled(model, small[:1], tmp_path, dtype="int8", calibrate=small)
    (tmp_path / "far").mkdir()
    far = Compiled(model, small[:1], tmp_path / "far", dtype="int8", calibrate=100 * small)
    wanted = outputs_of(model, small[:1])
    assert difference(near(small[:1]), wanted) < 0.01 < difference(far(small[:1]), wanted)


class Sorted(nn.Module):
    def forward(self, value):
        return value.sort(-1).values + 1


class FromTheEnd(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(4, 3)

    def forward(self, sequence):
        return self.layer(sequence)[0]


WRONG = {
    "an operation": (Sorted(), torch.randn(2, 4), {}, r"sort.* cannot be written as C"),
    "time first": (FromTheEnd(), torch.randn(7, 1, 4), {}, "sequences of one step.*batch_first"),
    "a path": (nn.Linear(2, 1), torch.zeros(1, 2), {"path": "net.cpp"}, r"write 'net\.c'"),
    "no number": (nn.Linear(2, 1), torch.full((1, 2), float("nan")), {}, "infinite or NaN"),
    "two batches": (
        nn.Bilinear(2, 2, 1),
        (torch.zeros(1, 2), torch.zeros(2, 2)),
        {},
        "the same first dimension",
    ),
    "zeros": (nn.Linear(2, 1), torch.zeros(3, 2), {"dtype": "int8"}, "got zeros only"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_refused_in_words_and_writes_nothing(case, tmp_path):
    model, example, settings, message = WRONG[case]
    settings = {"path": "net.c", **settings}
    with pytest.raises(ValueError, match=message):
        sg.to_c(model, tmp_path / Path(settings.pop("path")), example=example, **settings)
    assert list(tmp_path.iterdir()) == []
