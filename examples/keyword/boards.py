"""Builds a network for a Cortex-M and runs it on boards that qemu emulates, without hardware."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

FILES = Path(__file__).parent / "board"
FLAGS = ["-mthumb", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]
LINK = ["-ffunction-sections", "-fdata-sections", "-nostartfiles", "-Wl,--gc-sections"]
LINK += ["--specs=nano.specs", "--specs=nosys.specs"]


@dataclass(frozen=True)
class Board:
    """A board of qemu, and its processor for gcc."""

    machine: str
    processor: tuple[str, ...]
    flash: int
    ram: int
    """Bytes that the linker may use."""
    per_tick: float
    """Instructions for each tick of the clock, when qemu executes one in a nanosecond."""


M4 = ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
BOARDS = {
    "Cortex-M4": Board("mps2-an386", M4, 4 << 20, 4 << 20, 40.0),
    "Cortex-M0+": Board("microbit", ("-mcpu=cortex-m0plus",), 256 << 10, 16 << 10, 62.5),
}
"""qemu has no Cortex-M0+; the BBC micro:bit's Cortex-M0 has the same instructions."""


@dataclass(frozen=True)
class Run:
    """What a network took on a board."""

    flash: int
    """Bytes of the whole program but its inputs: weights, code, start-up."""
    ram: int
    """Bytes of variables and of stack."""
    instructions: float
    """For one input."""
    outputs: np.ndarray
    """[inputs, outputs]"""


def is_installed() -> bool:
    """Whether Debian's gcc-arm-none-eabi and qemu-system-arm are there."""
    return all(map(shutil.which, ("arm-none-eabi-gcc", "qemu-system-arm")))


def run(board: Board, network: Path, inputs: Tensor) -> Run:
    """Runs `network.c` on inputs; everything that is built lies next to it."""
    folder, count = network.parent, len(inputs)
    rows = ["{" + ", ".join(f"{x:.9g}" for x in one.flatten().tolist()) + "}" for one in inputs]
    head = f"#define NUM_INPUTS {count}\nstatic const float inputs[][{inputs[0].numel()}] = {{\n"
    (folder / "inputs.h").write_text(head + ",\n".join(rows) + "};\n")
    program = folder / f"{board.machine}.elf"
    sizes = [f"-Wl,--defsym=FLASH_SIZE={board.flash}", f"-Wl,--defsym=RAM_SIZE={board.ram}"]
    sources = [FILES / "startup.c", FILES / "main.c", network]
    command = ["arm-none-eabi-gcc", *board.processor, *FLAGS, *LINK, *sizes, f"-I{FILES}"]
    command += [f"-I{folder}", "-T", FILES / "board.ld", "-o", program, *sources, "-lm"]
    subprocess.run(command, check=True, timeout=300)
    text, data, bss = _sizes(program)
    lines = _printed(board, program)
    numbers = np.array([[int(word) for word in line.split()] for line in lines[:-1]], np.uint32)
    return Run(
        flash=text + data - 4 * inputs.numel(),
        ram=data + bss + int(lines[-1]),
        instructions=float(np.median(numbers[:, 0])) * board.per_tick,
        outputs=np.ascontiguousarray(numbers[:, 1:]).view(np.float32),
    )


def _sizes(program: Path) -> list[int]:
    done = subprocess.run(
        ["arm-none-eabi-size", program], check=True, capture_output=True, text=True
    )
    return [int(word) for word in done.stdout.splitlines()[1].split()[:3]]


def _printed(board: Board, program: Path) -> list[str]:
    command = ["qemu-system-arm", "-M", board.machine, "-nographic", "-semihosting"]
    command += ["-icount", "shift=0", "-kernel", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    if "fault" in done.stdout + done.stderr:
        raise RuntimeError(f"the program has failed on {board.machine}")
    return (done.stdout + done.stderr).strip().splitlines()
