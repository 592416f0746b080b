from django.urls import path

from . import views

app_name = "shop"

urlpatterns = [
    path("", views.products, name="products"),
    path("products/<slug:slug>/", views.product, name="product"),
    path("orders/<str:number>/", views.order, name="order"),
    path("orders/<str:number>/status/", views.order_status, name="order_status"),
    path("orders/<str:number>/receipt/", views.receipt, name="receipt"),
    path("stock/", views.stock, name="stock"),
    path("stock/<int:pk>/", views.export, name="export"),
]
