"""The C file is self-contained, compiles without a warning, and its program prints labels."""

import re
import shlex
import subprocess

import pytest
import torch
from torch import nn

import sparsegate as sg

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
MACHINES = {
    "vectors": ("-O2", "-march=native"),
    "sixteen bytes": ("-O2",),
    "plain": ("-O1", "-DSPARSEGATE_PLAIN"),
}
SANITIZERS = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compiled(folder, compiler, *flags):
    words = [
        compiler,
        *STRICT,
        *flags,
        "-DSPARSEGATE_MAIN",
        "-o",
        str(folder / "net"),
        str(folder / "net.c"),
        "-lm",
    ]
    subprocess.run(words, check=True, timeout=600)
    return folder / "net"


def classify(program, content, *words):
    return subprocess.run(
        [program, *words], input=content, capture_output=True, check=False, timeout=60
    )


def labels(done):
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def wanted(model, images):
    with torch.no_grad():
        return model(images).flatten(1).argmax(1).tolist()


@pytest.fixture(scope="module")
def digits_network():
    torch.manual_seed(0)
    layers = (
        nn.Conv2d(1, 3, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(3, 4, 3),
        nn.AvgPool2d(2),
    )
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 5)).eval(), torch.randn(37, 1, 12, 12)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_program_prints_the_networks_labels(machine, compiler, digits_network, tmp_path):
    model, images = digits_network
    sg.to_c(model, tmp_path / "net.c", example=images)
    program = compiled(tmp_path, compiler, *MACHINES[machine])
    assert labels(classify(program, images.numpy().tobytes())) == wanted(model, images)


@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_the_program_reads_and_writes_nothing_it_must_not(dtype, network, tmp_path):
    model, images = network
    sg.to_c(model, tmp_path / "net.c", example=images, dtype=dtype)
    program = compiled(tmp_path, "gcc", *SANITIZERS)
    assert len(labels(classify(program, images.numpy().tobytes()))) == len(images)


def test_bytes_are_normalised(digits_network, tmp_path):
    from sparsegate.export import Normalise

    model, _ = digits_network
    normalise, images = (
        Normalise(100.0, 50.0),
        torch.randint(0, 256, (20, 1, 12, 12), dtype=torch.uint8),
    )
    sg.to_c(model, tmp_path / "net.c", example=torch.zeros(1, 1, 12, 12), normalise=normalise)
    found = labels(classify(compiled(tmp_path, "gcc"), images.numpy().tobytes(), "--uint8"))
    assert found == wanted(model, normalise(images))


def test_part_of_an_image_is_an_error_after_the_labels_of_the_whole_ones(digits_network, tmp_path):
    model, images = digits_network
    sg.to_c(model, tmp_path / "net.c", example=images)
    program = compiled(tmp_path, "gcc")
    done = classify(program, images.numpy().tobytes()[:-3])
    assert done.returncode == 1
    assert len(done.stdout.split()) == 36
    assert (
        done.stderr == b"expected 576 bytes per image, got 573 after the last of 36 whole images\n"
    )
    assert classify(program, b"").returncode == 0
    assert classify(program, b"", "--what").returncode == 2


def test_the_code_has_no_memory_of_its_own(digits_network, tmp_path):
    written = sg.to_c(digits_network[0], tmp_path / "net.c", example=digits_network[1])
    text = (tmp_path / "net.c").read_text()
    assert "alloc" not in text
    assert set(re.findall(r"#include (\S+)", text)) == {
        '"net.h"',
        "<math.h>",
        "<string.h>",
        "<stdio.h>",
    }
    subprocess.run(
        ["gcc", "-std=c99", "-O1", "-c", "-o", tmp_path / "net.o", tmp_path / "net.c"], check=True
    )
    symbols = subprocess.run(
        ["nm", tmp_path / "net.o"], capture_output=True, text=True, check=True
    ).stdout
    assert not re.search(r" [bBdDC] ", symbols), "nothing is written but the stack and the result"
    assert written.num_bytes == sum(file.stat().st_size for file in written.files)


def test_zeros_and_dead_units_are_not_in_the_code(tmp_path):
    model = nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 2))
    model[0].weight.data = torch.tensor([[0.5, 0, 0, 0], [0, 0.25, 0, 0], [0.125] * 4])
    model[2].weight.data = torch.tensor([[2.0, 0, 0], [3.0, 4.0, 0]])  # nobody reads the third unit
    written = sg.to_c(model, tmp_path / "net.c", example=torch.zeros(1, 4))
    assert written.num_weights == 5
    assert "0.125f" not in (tmp_path / "net.c").read_text()


def test_more_weights_than_compile_soon_have_to_be_asked_for(tmp_path):
    model = nn.Linear(300, 100)
    with pytest.raises(ValueError, match=r"at most 25,000 weights.*got 30,000;.*max_weights=30000"):
        sg.to_c(model, tmp_path / "net.c", example=torch.zeros(1, 300), form="code")
    assert list(tmp_path.iterdir()) == []
    assert (
        sg.to_c(
            model, tmp_path / "net.c", example=torch.zeros(1, 300), max_weights=30_000
        ).num_weights
        == 30_000
    )


def test_images_too_large_for_the_stack_are_refused(tmp_path):
    with pytest.raises(ValueError, match="bytes of stack"):
        sg.to_c(
            nn.Conv2d(3, 8, 3),
            tmp_path / "net.c",
            example=torch.zeros(1, 3, 200, 200),
            form="code",
        )


def test_a_c_file_ends_in_c_and_a_dtype_is_known(tmp_path):
    with pytest.raises(ValueError, match=r"write 'net\.c'"):
        sg.to_c(nn.Linear(2, 1), tmp_path / "net.cpp", example=torch.zeros(1, 2))


def test_a_network_that_has_died_compiles(compiler, tmp_path):
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(2, 3)
    ).eval()
    nn.init.zeros_(model[4].weight)
    images = torch.randn(17, 1, 4, 4)
    sg.to_c(model, tmp_path / "net.c", example=images)
    program = compiled(tmp_path, compiler, "-O2", "-march=native")
    assert labels(classify(program, images.numpy().tobytes())) == wanted(model, images)


def test_the_program_takes_images_that_are_large_for_a_stack(compiler, tmp_path):
    model, images = (
        nn.Sequential(nn.MaxPool2d(20), nn.Flatten(), nn.Linear(300, 4)).eval(),
        torch.rand(17, 3, 200, 200),
    )
    program = tmp_path / "program"
    sg.to_c(model, tmp_path / "net.c", example=images, dtype="int8")
    subprocess.run(
        [
            compiler,
            "-std=c99",
            "-O1",
            "-DSPARSEGATE_MAIN",
            "-o",
            program,
            tmp_path / "net.c",
            "-lm",
        ],
        check=True,
    )
    done = subprocess.run(
        [program], input=images.numpy().tobytes(), capture_output=True, check=True
    )
    assert len(done.stdout.split()) == 17


def test_the_command_can_be_pasted_whatever_the_file_is_called(tmp_path):
    written = sg.to_c(nn.Sequential(nn.Linear(3, 2)), tmp_path / "a b.c", example=torch.zeros(1, 3))
    assert str(tmp_path / "a b.c") in shlex.split(written.command)


def test_a_number_beyond_single_precision_is_refused(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2, eps=0)).eval()
    model[0].weight.data.fill_(1e30)
    model[1].running_var.fill_(1e-30)
    with pytest.raises(ValueError, match="expected a number of single precision, got"):
        sg.to_c(model, tmp_path / "net.c", example=torch.zeros(1, 2), form="code")
    with pytest.raises(ValueError, match="a number exceeds single precision"):
        sg.to_c(model, tmp_path / "net.c", example=torch.zeros(1, 2))


def tiny():
    return {"model": nn.Linear(3, 2), "example": torch.zeros(1, 3)}


def test_files_whose_names_differ_in_a_character_keep_their_own_headers(compiler, tmp_path):
    names = ["a b", "a-b", "a_b"]
    for name in names:
        written = sg.to_c(path=tmp_path / f"{name}.c", **tiny())
        assert [file.name for file in written.files] == [f"{name}.c", f"{name}.h"]
    for name in names:
        command = [compiler, *STRICT, "-c", "-o", tmp_path / "net.o", tmp_path / f"{name}.c"]
        subprocess.run(command, check=True)


def test_a_header_of_the_users_own_is_not_overwritten(tmp_path):
    (tmp_path / "net.h").write_text("int mine;\n")
    with pytest.raises(ValueError, match=r"net.h, which exists and was not written by sparsegate"):
        sg.to_c(path=tmp_path / "net.c", **tiny())
    assert [file.name for file in tmp_path.iterdir()] == ["net.h"]


def test_a_file_that_sparsegate_wrote_is_written_again(tmp_path):
    for _ in range(2):
        sg.to_c(path=tmp_path / "net.c", **tiny())


@pytest.mark.parametrize("name", ['a"b.c', "a\\b.c", "a\nb.c"])
def test_a_name_that_c_cannot_include_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="without quotes, backslashes and control characters"):
        sg.to_c(path=tmp_path / name, **tiny())
    assert list(tmp_path.iterdir()) == []
