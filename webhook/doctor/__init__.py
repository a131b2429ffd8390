"""`forewarn webhook doctor`: checks of an installed webhook, with the permissions of the user."""
