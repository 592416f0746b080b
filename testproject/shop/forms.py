from __future__ import annotations

from django import forms

from .models import Order


class OrderForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ["quantity", "name", "email"]
        labels = {"name": "Your name", "email": "Your email address"}
        widgets = {
            "quantity": forms.NumberInput(attrs={"min": 1}),
            "name": forms.TextInput(attrs={"autocomplete": "name"}),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
        }
