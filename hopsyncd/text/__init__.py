"""Text analysis that several rooms need."""
