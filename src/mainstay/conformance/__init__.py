"""Does a provider keep the contract? Checks as a table, run against any provider by gRPC."""
