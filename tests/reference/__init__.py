"""Slow, obvious versions of what the package computes fast, and graphs to compare them on."""

import torch

# Thousands of tiny operations: with more threads than free cores they mostly wait for each other.
torch.set_num_threads(1)
