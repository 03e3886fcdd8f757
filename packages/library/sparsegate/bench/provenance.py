"""Describes the machine and the package versions that produced a result."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from sparsegate_runtime.version import VERSION


def machine() -> dict[str, Any]:
    """Processor, cores and accelerator; no names of hosts or people."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def versions(*packages: str) -> dict[str, str]:
    """The versions of sparsegate, Python and the named packages."""
    own = {"sparsegate": VERSION, "python": platform.python_version()}
    return own | {name: version(name) for name in packages}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line for line in lines if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor()
