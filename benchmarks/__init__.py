"""Measures django_taskq beside other queues: see README.md."""
