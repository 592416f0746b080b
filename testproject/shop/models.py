"""What the shop sells, and what was ordered."""

from __future__ import annotations

import secrets

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.urls import reverse

#: Letters and digits that nobody takes for one another.
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"


def new_number() -> str:
    """Draw the number of an order: it is the address of a page, so it can't be guessed."""
    return "".join(secrets.choice(ALPHABET) for _ in range(10))


class OutOfStock(Exception):
    """There is less in stock than was ordered."""


class Product(models.Model):
    class Shape(models.TextChoices):
        TIN = "tin", "tin"
        POT = "pot", "pot"
        CUP = "cup", "cup"
        KETTLE = "kettle", "kettle"

    name = models.CharField(max_length=80)
    slug = models.SlugField(unique=True)
    description = models.TextField(blank=True)
    shape = models.CharField(max_length=10, choices=Shape, default=Shape.TIN)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.PositiveIntegerField(default=0)
    payment_refused = models.BooleanField(
        "the bank refuses payments",
        default=False,
        help_text="Each payment of this product fails. Clear it, then retry the dead letters.",
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("shop:product", args=[self.slug])

    def take(self, quantity: int) -> None:
        """Take a quantity out of the stock, or raise `OutOfStock`."""
        enough = Product.objects.filter(pk=self.pk, stock__gte=quantity)
        if not enough.update(stock=models.F("stock") - quantity):
            raise OutOfStock(f"There are fewer than {quantity} left.")


class Order(models.Model):
    number = models.CharField(max_length=10, unique=True, default=new_number, editable=False)
    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1)])
    total = models.DecimalField(max_digits=10, decimal_places=2, editable=False)
    name = models.CharField(max_length=100)
    email = models.EmailField()
    placed_at = models.DateTimeField(auto_now_add=True)
    # What the tasks have done. Each looks here first, for a task may run twice.
    confirmed_at = models.DateTimeField(null=True, editable=False)
    paid_at = models.DateTimeField(null=True, editable=False)
    reminded_at = models.DateTimeField(null=True, editable=False)
    parcel = models.CharField(max_length=20, blank=True, editable=False)

    class Meta:
        ordering = ["-placed_at"]

    def __str__(self) -> str:
        return self.number

    def save(self, *args, **kwargs) -> None:
        if self.total is None:
            self.total = self.product.price * self.quantity
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("shop:order", args=[self.number])


class Step(models.Model):
    """A task that belongs to an order."""

    class Kind(models.TextChoices):
        CONFIRMATION = "confirmation", "Confirmation by mail"
        PAYMENT = "payment", "Payment"
        WAREHOUSE = "warehouse", "Warehouse"
        RECEIPT = "receipt", "Receipt"
        REMINDER = "reminder", "Request for a review"

    order = models.ForeignKey(Order, models.CASCADE, related_name="steps")
    kind = models.CharField(max_length=20, choices=Kind)
    result_id = models.CharField(max_length=64)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.get_kind_display()


class Receipt(models.Model):
    """The receipt of an order that is paid, as the service in testproject/receipts has made it."""

    order = models.OneToOneField(Order, models.CASCADE)
    html = models.TextField()
    filed_at = models.DateTimeField(auto_now_add=True)
    # Of the task that filed it.
    result_id = models.CharField(max_length=64)

    class Meta:
        ordering = ["-filed_at"]

    def __str__(self) -> str:
        return f"Receipt {self.order}"

    def get_absolute_url(self) -> str:
        return reverse("shop:receipt", args=[self.order.number])


class StockExport(models.Model):
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    requested_at = models.DateTimeField(auto_now_add=True)
    result_id = models.CharField(max_length=64, blank=True)
    file_name = models.CharField(max_length=80, blank=True)

    class Meta:
        ordering = ["-requested_at"]

    def __str__(self) -> str:
        return f"Stock export {self.pk}"
