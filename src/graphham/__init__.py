"""GraphHAM: node embeddings with a nested hierarchy of latent groups."""

__version__ = "0.1.0"
