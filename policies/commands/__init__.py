"""One module a subcommand of `forewarn`: arguments in, exit status out."""
