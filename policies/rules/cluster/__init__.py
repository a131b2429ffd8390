"""Rules about the whole cluster: findings of `forewarn audit` that no single object shows."""
