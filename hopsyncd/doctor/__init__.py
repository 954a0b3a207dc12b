"""Whether hopsyncd can work here: one check after the other, each finding with its remedy."""
