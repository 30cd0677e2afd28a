"""A package of the user, with the name of one of this tree."""

OWNER = "the user's tests"
