"""How we talk: protobuf and gRPC, and nobody outside this package sees either.

gRPC for Python has no switch for the lowest TLS version. It reads a list of cipher suites, which
holds for TLS 1.2 only, once, when it is itself imported: so before any module here imports it, the
list is set to a suite that needs a secret nobody has. What is left is TLS 1.3. Where something else
imported gRPC first, a server still refuses each call that came over less.
"""

import os

os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-PSK-AES128-CBC-SHA"  # noqa: TID251 - set, not read
