"""The flows of one action each, straight down the page."""
