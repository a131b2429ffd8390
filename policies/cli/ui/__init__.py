"""The pages of `forewarn ui`: a Flask application on this machine, whose questions run in forked processes."""
