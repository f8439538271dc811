"""Compiles a set of models with torch.compile in this process and checks them against eager.

A program, not a test: `test_inductor_workers.py` runs it in a fresh process with
fresh caches and reads the JSON it writes. Each case is compiled by Inductor's
worker pool with whatever start method the environment chose, after this process
initialized CUDA. A case is one model in one dtype, forward alone or forward and
backward; `max-autotune` and recompilation are cases of their own.

    python inductor_models.py OUTPUT.json
"""

from __future__ import annotations

import copy
import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# The largest relative error (norm of the difference over norm of the answer) against
# the same model in float64 that is right whatever eager does. Beyond it, Inductor may
# be as far off as twice eager's own error: both round intermediates to the dtype, but in
# different places and orders.
TOLERANCE = {torch.float32: 2e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class GatedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(256)
        self.up, self.gate, self.down = (
            nn.Linear(256, 512),
            nn.Linear(256, 512),
            nn.Linear(512, 256),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class SoftmaxAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(128, 384)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.transpose(-1, -2)) * 128**-0.5
        return torch.softmax(scores.masked_fill(scores < -4, -1e4), dim=-1) @ v


class ConvNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(F.leaky_relu(self.norm(self.conv(x))), 2).sigmoid()


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.head(torch.tanh(x))
        return torch.logsumexp(logits, dim=-1) - logits.mean(dim=-1)


class RMSNormRotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(128))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (
            x
            * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)
            * self.weight
        )
        first, second = y.chunk(2, dim=-1)
        angle = torch.arange(64, device=x.device, dtype=torch.float32) / 64
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class EmbeddingBagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(512, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        index = (x.detach().float().abs() * 100).long() % 512
        return (self.table(index) * x.unsqueeze(-1)).cumsum(dim=1).relu().mean(dim=-1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x[:, 0])
        for step in range(4):
            state = torch.tanh(self.cell(state) + x[:, step]) * 0.9 + state * 0.1
        return state


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "gated_mlp": (GatedMLP, (64, 256)),
    "attention": (SoftmaxAttention, (4, 96, 128)),
    "conv_norm": (ConvNorm, (4, 8, 32, 32)),
    "classifier": (Classifier, (128, 64)),
    "rms_norm_rotary": (RMSNormRotary, (16, 32, 128)),
    "embedding": (EmbeddingBagged, (32, 48)),
    "recurrent": (Recurrent, (32, 4, 64)),
}


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over norm of `expected`, in float64; NaN if any is NaN."""
    actual, expected = actual.detach().double(), expected.detach().double()
    return float((actual - expected).norm() / expected.norm().clamp_min(1e-30))


def run(
    model: nn.Module, call: Callable[..., torch.Tensor], x: torch.Tensor, backward: bool
) -> list[torch.Tensor]:
    """The model's output and, with `backward`, the gradients of input and parameters.

    The gradients are of the output's product with fixed random weights of size one: a
    loss like the mean square would have gradients so small that half precision rounds
    them away, and for a normalization layer ones that are nothing but rounding.
    """
    if not backward:
        with torch.no_grad():
            return [call(x).clone()]
    x = x.clone().requires_grad_()
    parameters = [p for p in model.parameters() if p.requires_grad]
    out = call(x)
    generator = torch.Generator(device=x.device).manual_seed(1)
    weights = torch.randn(out.shape, device=x.device, generator=generator)
    gradients = torch.autograd.grad((out.float() * weights).sum(), [x, *parameters])
    return [out.detach(), *gradients]


def check(name: str, dtype: torch.dtype, backward: bool, mode: str | None = None) -> dict[str, Any]:
    """Compiles one model and compares its results, and eager's, with the model in float64.

    Returns the worst of Inductor's relative errors and eager's error at the same place.
    """
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model = make().to("cuda", dtype)
    x = torch.randn(shape, device="cuda", dtype=dtype)
    compiled = run(model, torch.compile(model, mode=mode), x, backward)
    eager = run(model, model, x, backward)
    exact_model = copy.deepcopy(model).double()
    exact = run(exact_model, exact_model, x.double(), backward)
    worst, beside = 0.0, 0.0
    for actual, plain, expected in zip(compiled, eager, exact, strict=True):
        error, allowed = relative_error(actual, expected), relative_error(plain, expected)
        if not error <= max(TOLERANCE[dtype], 2 * allowed):
            raise AssertionError(f"relative error {error}, eager's is {allowed}")
        if error >= worst:
            worst, beside = error, allowed
    return {"error": worst, "eager": beside}


def check_recompilation() -> dict[str, Any]:
    """A new rank, a new dtype and a dynamic size each compile anew and stay right."""
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + 1, dim=-1).cumsum(dim=-1)

    counters = torch._dynamo.utils.counters
    compiled = torch.compile(function)
    graphs = []
    for argument in (
        torch.randn(8, 100, device="cuda"),
        torch.randn(8, 37, device="cuda"),
        torch.randn(3, 8, 20, device="cuda"),
        torch.randn(8, 100, device="cuda", dtype=torch.float16),
    ):
        worst = relative_error(compiled(argument), function(argument))
        if not worst <= 1e-2:
            raise AssertionError(f"relative error {worst} for {tuple(argument.shape)}")
        graphs.append(counters["stats"]["unique_graphs"])
    if not graphs[-1] - graphs[0] >= 3:
        raise AssertionError(f"expected a compilation for each new kind of argument, saw {graphs}")
    return {"graphs": graphs}


def cases() -> dict[str, Callable[[], dict[str, Any]]]:
    """Every case by name."""
    table: dict[str, Callable[[], dict[str, Any]]] = {}
    for name in MODELS:
        for dtype in DTYPES:
            short = str(dtype).removeprefix("torch.")
            for backward in (False, True):
                way = "forward_backward" if backward else "forward"
                table[f"{name}-{short}-{way}"] = lambda n=name, d=dtype, b=backward: check(n, d, b)
    table["max_autotune"] = lambda: check("gated_mlp", torch.float16, False, mode="max-autotune")
    table["recompilation"] = check_recompilation
    return table


def wait_for_pool() -> None:
    """Waits until Inductor's workers are up, so that they compile and not this process.

    Looked up by feature: not every PyTorch has the call, and without it the pool is
    used as soon as its first worker answers.
    """
    from torch._inductor.async_compile import AsyncCompile

    AsyncCompile.warm_pool()
    if hasattr(AsyncCompile, "wait_pool_ready"):
        AsyncCompile.wait_pool_ready()


def main(output: str) -> int:
    """Runs all cases and writes their results; returns 0 whether or not they pass."""
    import triton
    from torch._inductor import config

    torch.cuda.init()
    torch.zeros(1, device="cuda")
    started = time.perf_counter()
    wait_for_pool()
    report: dict[str, Any] = {
        "torch": torch.__version__,
        "triton": triton.__file__,
        "backends": list(triton.backends.backends),
        "compile_threads": config.compile_threads,
        "worker_start_method": config.worker_start_method,
        "static_launcher": getattr(config, "use_static_triton_launcher", None)
        or getattr(config, "use_static_cuda_launcher", None),
        "device": torch.cuda.get_device_name(),
        "cases": {},
    }
    for name, case in cases().items():
        begin = time.perf_counter()
        try:
            result = {"passed": True, **case()}
        except Exception:
            result = {"passed": False, "message": traceback.format_exc()[-3000:]}
        result["seconds"] = time.perf_counter() - begin
        report["cases"][name] = result
    report["seconds"] = time.perf_counter() - started
    with open(output, "w") as file:
        json.dump(report, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
