"""A program body for torchrun, unchanged, in actors: each process of the mesh is one rank of `torch.distributed`.

python examples/spmd_training.py [PROCESSES]        needs PyTorch; trains on the CPU
"""

import sys

from monarch.actor import Actor, endpoint, this_host
from monarch.spmd import setup_torch_elastic_env


def train(steps: int) -> list[float]:
    """What torchrun would run in each process; returns the loss of each step, averaged over the ranks."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    inputs = torch.randn(64, 8)
    targets = inputs.sum(dim=1, keepdim=True)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        losses.append(mean.item())
    dist.destroy_process_group()
    return losses


class Trainer(Actor):
    """One rank."""

    @endpoint
    def train(self, steps: int) -> list[float]:
        """Run the body; a result goes straight back to the program, where torchrun would need a file."""
        return train(steps)


def main(processes: int) -> None:
    procs = this_host().spawn_procs({"gpus": processes})
    setup_torch_elastic_env(procs)
    losses = procs.spawn("trainers", Trainer).train.call(steps=20).get().item(gpus=0)
    print(f"loss of the first step: {losses[0]:.4f}")
    print(f"loss of the last step: {losses[-1]:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
