"""What a trained network says about every node of a graph."""
