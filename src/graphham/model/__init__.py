"""The GraphHAM network: inputs, memberships, attention, contexts, losses."""
