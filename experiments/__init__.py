"""The paper's tables and figures, and ours: their cells, measured, stored and shown.

A package beside the source and no part of the wheel: ``python -m experiments table2`` in a clone,
which is what ``graphham reproduce table2`` runs.
"""
