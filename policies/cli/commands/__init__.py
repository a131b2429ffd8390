"""The subcommands of `forewarn`, one per module: arguments in, exit status out."""
