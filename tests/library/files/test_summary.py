"""The table shows where every bit goes."""

import re

import pytest
import torch
from torch import nn

from sparsegate.files import compress, load, position_entropy, quantise_


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(100, 100)
        self.second = nn.Linear(100, 100, bias=False)
        self.second.weight = self.first.weight
        nn.init.eye_(self.first.weight)


def cells(text):
    """The table's rows, by their first cell."""
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_a_row_is_a_tensor_with_the_bits_of_its_values_and_indices():
    row = cells(str(compress({"w": torch.eye(100)})))["w"]
    # 100 gaps, the first 0 and the rest 100: with rice 6 quotients are 99 zeros and 100 ones, 25
    # bytes, and remainders 6 planes of 13 bytes; together 824 bits.
    bound = position_entropy(10_000, 100)
    wanted = [
        "100x100",
        "100",
        "1",
        "99.00 %",
        "gaps",
        "40.24",
        "3,200",
        "824",
        f"{bound:,.0f}",
        "320,000",
    ]
    assert row[:-1] == wanted
    assert 0 < int(row[-1].replace(",", "")) < 320_000


def test_the_sum_is_the_size_of_the_file(tmp_path):
    path = tmp_path / "net.sparse.safetensors"
    packed = compress(TwoHeads())
    packed.save(path)
    assert f"{path.stat().st_size:,} bytes" in str(packed)
    assert str(load(path)).splitlines()[-2:] == str(packed).splitlines()[-2:]
    table = cells(str(packed))
    header, values, indices = (
        int(each.replace(",", "")) for each in (table["header"][0], *table["whole file"][2:4])
    )
    assert header + values + indices == 8 * path.stat().st_size


def test_few_distinct_values_show_in_the_table_and_in_the_size_of_the_small_file():
    torch.manual_seed(0)
    layer = nn.Linear(100, 100, bias=False)
    exact = str(compress(layer))
    quantise_(layer, bits=4)
    text = str(compress(layer))
    assert cells(exact)["weight"][2] != "15"
    assert cells(text)["weight"][2] in ("15", "16")

    def bits(text):
        return [float(each) for each in re.findall(r"\(([\d.]+) bits/kept\)", text)]

    assert bits(exact)[0] == bits(text)[0] > 32
    assert bits(text)[1] < 5 < bits(exact)[1]


def test_tied_names_stand_below():
    assert "second.weight is tied to first.weight" in str(compress(TwoHeads())).splitlines()


def test_the_papers_count_is_of_weights_and_their_indices_not_of_biases():
    assert "100 of 10,000 weights kept; weights and indices, the paper's count: 200" in str(
        compress(TwoHeads())
    )


@pytest.mark.parametrize(
    "network",
    [
        {},
        {"zeros": torch.zeros(10, 10)},
        {"empty": torch.zeros(0, 3)},
        {"number": torch.tensor(3)},
        {"half": torch.eye(20).bfloat16()},
        {"truth": torch.tensor([True, False])},
        {"long " * 20: torch.ones(3)},
    ],
    ids=lambda network: next(iter(network), "nothing")[:10],
)
def test_every_network_has_a_table_with_columns_that_line_up(network):
    lines = str(compress(network)).splitlines()
    head = lines[0]
    assert (
        " ".join(head.split())
        == "tensor shape kept distinct sparsity format bits/kept values indices bound dense zip"
    )
    end = head.index("kept") + len("kept")
    for line in lines[1 : 1 + len(network)]:
        assert line[end - 1].isdigit()
        assert line[end] == " "
    assert all(line == line.rstrip() for line in lines)


def test_tensors_of_half_the_memory_are_not_zipped_for_a_table():
    packed = compress({"large": torch.zeros(2**25)})  # 128 MiB
    assert cells(str(packed))["large"][-1] == "-"


def test_a_damaged_tensor_is_an_error_with_its_name(unsigned, tmp_path):
    path = tmp_path / "net.sparse.safetensors"
    compress({"fc.weight": torch.eye(300)}).save(path)
    raw = bytearray(unsigned(path.read_bytes()))
    raw[-20:] = b"\xff" * 20
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"fc\.weight"):
        str(load(path))
