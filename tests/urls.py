"""The addresses of the test project: the admin, and the admin again as a site of its own."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from django_taskq.admin import register

other_site = admin.AdminSite(name="other")
register(other_site)

urlpatterns = [path("admin/", admin.site.urls), path("other/", other_site.urls)]
