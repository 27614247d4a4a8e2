"""From a network and a graph to fitted weights."""
