"""A program for torchrun of which the last rank fails while the others wait for it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == dist.get_world_size() - 1:
    raise ValueError("out of data")
dist.all_reduce(torch.zeros(1))
