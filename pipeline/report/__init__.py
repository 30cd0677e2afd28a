"""One page of HTML from the tables: what moved, what stood still and why, and where the bottleneck is."""
