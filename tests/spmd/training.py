"""A program for torchrun, as people have them: it knows nothing of actors."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 8
STEPS = 3


def main() -> dict[str, float]:
    dist.init_process_group("gloo")
    try:
        return {"sum_of_ranks": sum_of_ranks(), "difference": difference_from_one_process()}
    finally:
        dist.destroy_process_group()


def sum_of_ranks() -> float:
    total = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(total)
    return total.item()


def difference_from_one_process() -> float:
    """How far the weights after training on all ranks are from those of the same training in one process."""
    inputs, targets = samples()
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    model = DistributedDataParallel(fresh_model())
    train(model, inputs[mine], targets[mine])
    alone = fresh_model()
    train(alone, inputs, targets)
    return max((a - b).abs().max().item() for a, b in zip(model.module.parameters(), alone.parameters()))


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.arange(SAMPLES * 3, dtype=torch.float64).reshape(SAMPLES, 3) / SAMPLES
    return inputs, inputs.sum(dim=1, keepdim=True)


def fresh_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 1, dtype=torch.float64)


def train(model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    results = parser.parse_args().out / f"{os.environ['RANK']}.json"
    results.write_text(json.dumps(main()))
