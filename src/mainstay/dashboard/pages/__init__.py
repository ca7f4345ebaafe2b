"""One module for each kind of page: from answers to HTML."""
