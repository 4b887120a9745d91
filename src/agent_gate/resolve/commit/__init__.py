"""Changes to many files as one transaction: staged beside their places, journalled, and made or undone together."""
