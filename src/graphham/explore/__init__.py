"""The explorer: a run in the browser, from a local server or as a folder of files."""
