"""Tests in the folders of the packages they test; import helpers as ``tests.x``."""
