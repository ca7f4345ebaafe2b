"""The provider that `mainstay provider new` writes: working modules, copied under another name."""
