"""How tenants, administrators and node agents talk to us by HTTP.

A route reads what was sent, checks who sent it, calls one function of `mainstay.tenancy` and
answers. What is decided is decided there.
"""
