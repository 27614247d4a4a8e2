"""Graphs in memory and in stores: ids, rows, neighbourhoods, planted truth."""
