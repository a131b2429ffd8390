"""What `forewarn doctor` looks at: an installation of the webhook, from outside, with the rights of who asks."""
