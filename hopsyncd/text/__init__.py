"""Text analysis that several packages use."""
