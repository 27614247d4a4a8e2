"""Work shared by several processes: who does what, and how the parts come together."""
