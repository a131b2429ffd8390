"""`forewarn webhook doctor`: checks a cluster's webhook as a user with the requester's rights sees it."""
