"""Rules about a cluster as a whole: what `forewarn audit` finds that no single object shows."""
