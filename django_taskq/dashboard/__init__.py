"""The admin's pages over Redis: change lists and views that read through the Inspector."""
