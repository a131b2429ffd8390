"""What rules share: the context of an evaluation, predictions and quota use of a change set, the words of messages."""
