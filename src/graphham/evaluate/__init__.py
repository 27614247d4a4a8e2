"""Protocols, metrics, tests of significance: which method suits a graph.

A *cell* is one measurement: one method on one fold of one graph under one protocol. Cells are small
JSON files; every table is made from them. The paper's tables are made by ``experiments``, a package
beside the source.
"""
