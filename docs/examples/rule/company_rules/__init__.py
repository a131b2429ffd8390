"""Rules of the company for forewarn."""
