"""What all packages use: findings, documents, limits and processes."""
