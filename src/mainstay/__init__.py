"""Mainstay: one pool of machines for many Kubernetes clusters and GPU tenants."""

__version__ = "0.1.0"
