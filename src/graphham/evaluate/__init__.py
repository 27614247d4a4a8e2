"""Protocols, metrics, tests of significance, and the paper's tables and figures by command.

A *cell* is one measurement: one method on one fold of one graph under one protocol. Cells are small
JSON files; every table, figure and sentence in RESULTS.md is made from them.
"""
