collect_ignore = ["vendor"]
