"""The web page: what running processes say, drawn, and the few things that may be told to them."""
