"""Products and accounts to play with; a second run changes nothing that is there."""

from __future__ import annotations

from decimal import Decimal

from django.contrib.auth.models import Permission, User
from django.core.management.base import BaseCommand
from django.db import transaction

from shop.models import Product

#: Name, slug, shape, price, stock, whether the bank refuses its payment, description.
PRODUCTS = [
    ("Assam Second Flush", "assam", "tin", "9.50", 120, False, "Malty and strong; a breakfast tea that takes milk."),
    ("Darjeeling First Flush", "darjeeling", "tin", "14.00", 60, False, "Light and floral, picked in March."),
    ("Sencha", "sencha", "tin", "12.00", 80, False, "Steamed green tea from Shizuoka, fresh and grassy."),
    (
        "Smoked Lapsang",
        "lapsang",
        "tin",
        "11.50",
        45,
        False,
        "Dried over pine fires. Tastes of campfire, in a good way.",
    ),
    ("Stoneware Teapot", "stoneware-teapot", "pot", "48.00", 25, False, "Holds four cups and never drips."),
    (
        "Tasting Cups, Set of Four",
        "tasting-cups",
        "cup",
        "26.00",
        40,
        False,
        "Thin porcelain, so that you see the colour.",
    ),
    ("Gooseneck Kettle", "gooseneck-kettle", "kettle", "75.00", 15, False, "Pours slowly and exactly, to the degree."),
    (
        *("Gold-plated Kettle", "gold-plated-kettle", "kettle", "950.00", 9, True),
        "For very special guests. The bank doesn't believe that anyone buys this, and refuses each payment.",
    ),
]

#: Name and password of the accounts: one that may do everything, and one that may only look.
ADMIN = ("admin", "admin")
VIEWER = ("viewer", "viewer")


class Command(BaseCommand):
    help = "Make the shop's products and two accounts, admin and viewer, whose passwords are their names."

    @transaction.atomic
    def handle(self, **options) -> None:
        for name, slug, shape, price, stock, refused, description in PRODUCTS:
            values = {"name": name, "shape": shape, "price": Decimal(price), "stock": stock}
            values |= {"payment_refused": refused, "description": description}
            Product.objects.get_or_create(slug=slug, defaults=values)
        if not User.objects.filter(username=ADMIN[0]).exists():
            User.objects.create_superuser(ADMIN[0], "admin@example.com", ADMIN[1])
        if not User.objects.filter(username=VIEWER[0]).exists():
            viewer = User.objects.create_user(VIEWER[0], "viewer@example.com", VIEWER[1], is_staff=True)
            seen = Permission.objects.filter(content_type__app_label__in=["shop", "django_taskq"])
            viewer.user_permissions.set(seen.filter(codename__startswith="view_"))
        self.stdout.write(f"{Product.objects.count()} products; accounts: {ADMIN[0]}, {VIEWER[0]}.")
