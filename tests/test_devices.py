"""Devices: which GPU a worker gets, what is settled before torch is imported, and which devices can be asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from mini import PATIENCE

from fixtures import devices

ROOT = Path(__file__).parents[1]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def listing(monkeypatch: pytest.MonkeyPatch, lines: int | None) -> None:
    """Let nvidia-smi list so many GPUs; None is a machine without it."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if lines is None:
            raise FileNotFoundError(command[0])
        return subprocess.CompletedProcess(
            command, 0, "".join(f"GPU {k}: a card (UUID: GPU-{k})\n" for k in range(lines))
        )

    monkeypatch.setattr(devices.subprocess, "run", run)


@pytest.mark.parametrize(
    ("worker", "pool", "gpu"),
    [
        ("gw0", "2,5", "2"), ("gw1", "2,5", "5"), ("gw2", "2,5", "2"), ("gw7", "2,5", "5"), ("gw10", "0,1,2", "1"),
        ("gw3", "0", "0"), ("gw1", "GPU-8a,GPU-9b", "GPU-9b"), ("gw2", "MIG-1,MIG-2", "MIG-1"),
    ],
)  # fmt: skip
def test_workers_take_turns_and_a_replacement_gets_a_gpu_too(worker: str, pool: str, gpu: str) -> None:
    assert devices.gpu_of(worker, pool.split(",")) == gpu


@pytest.mark.parametrize(
    ("chosen", "gpus"),
    [
        ("2,5", ["2", "5"]), (" 2 , 5 ", ["2", "5"]), ("", []), ("-1", []), ("0,-1,1", ["0"]), ("0,,1", ["0"]),
        ("GPU-8a7b,GPU-9c", ["GPU-8a7b", "GPU-9c"]), ("MIG-8a7b", ["MIG-8a7b"]),
        ("MIG-GPU-8a7b/1/0", ["MIG-GPU-8a7b/1/0"]),
    ],
)  # fmt: skip
def test_the_callers_choice_of_gpus_is_kept(monkeypatch: pytest.MonkeyPatch, chosen: str, gpus: list[str]) -> None:
    listing(monkeypatch, 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert devices.visible_gpus() == gpus


@pytest.mark.parametrize(("lines", "gpus"), [(None, []), (0, []), (3, ["0", "1", "2"])])
def test_without_a_choice_nvidia_smi_counts(
    monkeypatch: pytest.MonkeyPatch, lines: int | None, gpus: list[str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    listing(monkeypatch, lines)
    assert devices.visible_gpus() == gpus


def test_workers_are_told_of_gpus_only_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(devices.POOL, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    devices.share_gpus()
    assert devices.POOL not in os.environ
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    monkeypatch.setenv(devices.POOL, "")
    devices.share_gpus()
    assert os.environ[devices.POOL] == "2,5"


@pytest.mark.parametrize(
    ("device", "chosen", "gpus", "workers"),
    [
        ("cpu", None, 3, None), ("cpu", "5", 3, None), ("mps", None, 0, None),
        ("cuda", None, 3, 6), ("cuda", None, 0, 2), ("cuda:1", None, 3, 2), ("cuda", "5", 3, 5), ("cuda:1", "1", 3, 1),
        ("cuda", "many", 3, 6),
    ],
)  # fmt: skip
def test_auto_means_a_few_workers_per_gpu(
    monkeypatch: pytest.MonkeyPatch, device: str, chosen: str | None, gpus: int, workers: int | None
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen:
        monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", chosen)
    listing(monkeypatch, gpus)
    assert devices.auto_workers(device) == workers


def python(code: str, **environment: str) -> Any:
    """What a fresh process prints, as JSON; nothing that this suite has settled is passed on to it."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CUDA", "CUBLAS", "CAR"))
    }
    kept = {name: value for name, value in kept.items() if name not in THREADS}
    command = [sys.executable, "-c", f"import json, os, sys\n{code}"]
    run = subprocess.run(command, cwd=ROOT, env=kept | environment, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    ("environment", "gpu", "threads"),
    [
        ({"PYTEST_XDIST_WORKER": "gw3", "CAROUSEL_GPUS": "2,5"}, "5", "1"),
        ({"PYTEST_XDIST_WORKER": "gw2", "CAROUSEL_GPUS": "MIG-a,MIG-b", "CUDA_VISIBLE_DEVICES": "5"}, "MIG-a", "1"),
        ({"PYTEST_XDIST_WORKER": "gw3"}, None, "1"),
        ({"CAROUSEL_GPUS": "2,5", "CUDA_VISIBLE_DEVICES": "2,5"}, "2,5", "1"),
        ({"OMP_NUM_THREADS": "4"}, None, "4"),
    ],
)  # fmt: skip
def test_importing_conftest_settles_the_environment_and_leaves_torch_alone(
    environment: dict[str, str], gpu: str | None, threads: str
) -> None:
    found = python("import conftest\nprint(json.dumps({**os.environ, 'torch': 'torch' in sys.modules}))", **environment)
    assert found["torch"] is False
    assert found.get("CUDA_VISIBLE_DEVICES") == gpu
    assert found["OMP_NUM_THREADS"] == threads
    assert found["MKL_NUM_THREADS"] == found["OPENBLAS_NUM_THREADS"] == "1"
    assert found["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_torch_takes_the_threads_that_were_settled() -> None:
    code = """
from fixtures import devices
devices.settle_environment()
known = devices.check("cpu")
before = "torch" in sys.modules
devices.settle_torch("cpu")
print(json.dumps([known, before, devices.fingerprint("cpu")]))
"""
    known, imported, said = python(code, OMP_NUM_THREADS="3")
    assert (known, imported) == (None, False), "the CPU is known good without torch"
    assert said["threads"] == 3
    assert (said["tf32"], said["deterministic"]) == (False, True)
    assert said["device_name"].startswith("CPU, ")


@pytest.fixture
def flags() -> Iterator[None]:
    """Switch on what a claim must not meet, and put everything back."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = (matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark)
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    matmul.allow_tf32 = cudnn.allow_tf32 = cudnn.benchmark = True
    torch.use_deterministic_algorithms(False)
    yield
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("device", "settled"), [("cuda", True), ("cuda:1", True), ("cpu", False)])
def test_on_cuda_tf32_is_off_and_algorithms_are_deterministic(flags: None, device: str, settled: bool) -> None:
    devices.settle_torch(device)
    assert torch.backends.cuda.matmul.allow_tf32 is not settled
    assert torch.backends.cudnn.allow_tf32 is not settled
    assert torch.backends.cudnn.benchmark is not settled
    assert torch.are_deterministic_algorithms_enabled() is settled


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("cpu", None),
        ("cpu:0", None),
        ("cdua", "torch knows no such device; try cpu, cuda, cuda:1, mps or xpu"),
        ("", "torch knows no such device; try cpu, cuda, cuda:1, mps or xpu"),
        ("cuda:x", "torch knows no such device; try cpu, cuda, cuda:1, mps or xpu"),
        ("meta", "torch cannot compute on it here (Tensor.item() cannot be called on meta tensors); "),
        ("vulkan", "torch cannot compute on it here ("),
        ("privateuseone", "torch cannot compute on it here ("),
    ],
)  # fmt: skip
def test_a_device_that_cannot_compute_is_told_apart_in_one_line(device: str, says: str | None) -> None:
    found = devices.check(device)
    if says is None:
        assert found is None
    else:
        assert found is not None and found.startswith(f"--device {device}: {says}")
        assert "\n" not in found and len(found) < 250


@pytest.mark.parametrize(
    ("device", "count", "says"),
    [
        ("cuda", 0, f"torch {torch.__version__} sees no CUDA device here; --device cpu runs anywhere"),
        ("cuda", 1, None),
        ("cuda:1", 2, None),
        ("cuda:2", 2, "this machine has 2 CUDA device(s), counted from cuda:0"),
    ],
)
def test_a_gpu_has_to_be_there(monkeypatch: pytest.MonkeyPatch, device: str, count: int, says: str | None) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert devices.check(device) == (says and f"--device {device}: {says}")
