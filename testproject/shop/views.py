from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.admin.views.decorators import staff_member_required
from django.db import models
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from django_taskq import EnqueueError

from . import orders, tasks
from .forms import OrderForm
from .models import Order, OutOfStock, Product, Receipt, StockExport
from .progress import progress_of, steps_of

LATER = "Your order is stored, but it can't be worked on just now. We will look after it."

#: A receipt comes from elsewhere: whatever it holds, it runs nothing, loads nothing and sends nothing.
RECEIPT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'; sandbox"
)


@require_safe
def products(request: HttpRequest) -> HttpResponse:
    return render(request, "shop/products.html", {"products": Product.objects.all()})


@require_http_methods(["GET", "HEAD", "POST"])
def product(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a product, and take orders of it."""
    product = get_object_or_404(Product, slug=slug)
    form = OrderForm(request.POST or None, instance=Order(product=product))
    if request.method == "POST" and form.is_valid():
        order = form.save(commit=False)
        try:
            orders.place(order)
        except OutOfStock as error:
            form.add_error("quantity", str(error))
        except EnqueueError:
            messages.warning(request, LATER)
            return redirect(order)
        else:
            messages.success(request, "Thank you for your order.")
            return redirect(order)
    return render(request, "shop/product.html", {"product": product, "form": form})


@require_safe
def order(request: HttpRequest, number: str) -> HttpResponse:
    """Show an order and what its tasks have done; whoever knows the number may see it."""
    order = get_object_or_404(Order.objects.select_related("product"), number=number)
    steps = steps_of(order)
    working = any(not progress.finished for _, progress in steps)
    return render(request, "shop/order.html", {"order": order, "steps": steps, "working": working})


@require_safe
def order_status(request: HttpRequest, number: str) -> JsonResponse:
    """Tell what has become of an order's tasks, for other programs."""
    order = get_object_or_404(Order, number=number)
    return JsonResponse(
        {
            step.kind: {"status": progress.word, "attempts": progress.attempts, "detail": progress.detail}
            for step, progress in steps_of(order)
        }
    )


@require_safe
def receipt(request: HttpRequest, number: str) -> HttpResponse:
    """Show the receipt of an order."""
    receipt = get_object_or_404(Receipt, order__number=number)
    return HttpResponse(receipt.html, headers={"Content-Security-Policy": RECEIPT_POLICY})


@staff_member_required
@require_http_methods(["GET", "HEAD", "POST"])
def stock(request: HttpRequest) -> HttpResponse:
    """Show the stock and its exports, and start another one."""
    if request.method == "POST":
        try:
            orders.request_export(request.user)
        except EnqueueError:
            messages.warning(request, "The export can't be made just now. Please try again.")
        return redirect("shop:stock")
    exports = [
        (export, progress_of(tasks.export_stock, export.result_id))
        for export in StockExport.objects.select_related("requested_by")[:10]
    ]
    context = {
        "products": Product.objects.annotate(ordered=models.Sum("order__quantity", default=0)),
        "exports": exports,
        "working": any(not progress.finished for _, progress in exports),
    }
    return render(request, "shop/stock.html", context)


@staff_member_required
@require_safe
def export(request: HttpRequest, pk: int) -> FileResponse:
    """Download an export."""
    export = get_object_or_404(StockExport, pk=pk)
    path = settings.EXPORT_DIR / export.file_name
    if not path.is_file():
        raise Http404("This export has no file.")
    return FileResponse(path.open("rb"), as_attachment=True, filename=export.file_name)
