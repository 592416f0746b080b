from __future__ import annotations

from django.contrib import admin

from .models import Order, Product, Receipt, Step, StockExport


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ["name", "price", "stock", "payment_refused"]
    list_filter = ["payment_refused"]
    search_fields = ["name"]
    prepopulated_fields = {"slug": ["name"]}


class StepInline(admin.TabularInline):
    model = Step
    extra = 0
    can_delete = False
    readonly_fields = ["kind", "result_id"]

    def has_add_permission(self, request, obj=None) -> bool:
        return False


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "product", "quantity", "total", "name", "placed_at", "paid_at"]
    list_filter = ["product", "placed_at"]
    list_select_related = ["product"]
    search_fields = ["number", "name", "email"]
    date_hierarchy = "placed_at"
    readonly_fields = ["number", "total", "placed_at", "confirmed_at", "paid_at", "parcel", "reminded_at"]
    inlines = [StepInline]

    def has_add_permission(self, request) -> bool:
        return False  # An order is placed in the shop, where its tasks are enqueued.


@admin.register(Receipt)
class ReceiptAdmin(admin.ModelAdmin):
    list_display = ["__str__", "filed_at"]
    list_select_related = ["order"]
    search_fields = ["order__number"]
    readonly_fields = ["order", "filed_at", "result_id", "html"]

    def has_add_permission(self, request) -> bool:
        return False


@admin.register(StockExport)
class StockExportAdmin(admin.ModelAdmin):
    list_display = ["__str__", "requested_by", "requested_at", "file_name"]
    readonly_fields = ["requested_by", "requested_at", "result_id", "file_name"]

    def has_add_permission(self, request) -> bool:
        return False
