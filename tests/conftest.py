"""Settings of every test."""

import torch

# A test makes many small operations: on shared cores, threads that wait for each other cost more than they save.
torch.set_num_threads(1)
