"""What an author needs to write a provider: a Backend goes in, a ProviderServer comes out."""
