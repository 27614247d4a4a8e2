"""What a fit leaves behind: vectors, hierarchy, names, explanations, the run folder."""
